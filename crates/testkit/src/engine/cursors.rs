//! Cursors that are held at any point, while what they go through changes.

use std::collections::BTreeMap;

use ecotone_engine::contract::Cursor;
use rand::{RngExt, rngs::SmallRng};

/// What each key said since a cursor was made. No value is a tombstone.
pub type Said = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// Gives one of so many keys that change, which are every seventh, another value.
pub fn change(said: &mut Said, keys: u32, random: &mut SmallRng, write: impl FnOnce(&[u8], Option<&[u8]>)) {
    let number = random.random_range(0..keys / 7) * 7;
    let key = [&b"key "[..], &number.to_be_bytes()].concat();
    let value = random.random_bool(0.7).then(|| vec![random.random(); random.random_range(0..200)]);
    write(&key, value.as_deref());
    said.entry(key).or_insert_with(|| vec![None]).push(value);
}

/// Goes through a cursor, by the seed from one end or from both, each time that `goes_on` does nothing else. It gives
/// each key once, with what that said since it was made. Gives the number of records.
pub fn go_through(
    mut cursor: Box<dyn Cursor>,
    seed: u64,
    random: &mut SmallRng,
    said: &mut Said,
    mut goes_on: impl FnMut(&mut SmallRng, &mut Said) -> bool,
) -> usize {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        if !goes_on(random, said) {
            continue;
        }
        let reverse = seed % 3 == 1 || (seed % 3 == 2 && random.random());
        let next = if reverse { cursor.next_back() } else { cursor.next() };
        let Some((key, value)) = next.unwrap() else { break };
        let records = if reverse { &mut back } else { &mut front };
        records.push((key.to_vec(), value.to_vec()));
    }
    assert!(cursor.next().unwrap().is_none());
    back.reverse();
    front.extend(back);
    assert!(front.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}: out of order, or twice");
    let given: BTreeMap<_, _> = front.into_iter().collect();
    for (key, said) in &*said {
        assert!(said.contains(&given.get(key).cloned()), "seed {seed}: {key:?}");
    }
    assert!(given.keys().all(|key| said.contains_key(key)), "seed {seed}");
    given.len()
}
