//! Reads of many keys at once.

use ecotone_testkit::sim::SimStorage;

use super::*;

/// Keys that share chains, with values, deleted, and never written, in batches of every length, while half of the
/// index's buckets are split.
#[test]
fn a_batch_finds_what_single_calls_find() {
    let (hash, crowds) = (engine(3, 64), crowds(4));
    let keys: Vec<&[u8]> = crowds[..40].iter().flatten().map(|key| &key[..]).collect();
    for (number, key) in keys.iter().enumerate().filter(|(number, _)| number % 3 > 0) {
        hash.set(key, &vec![number as u8; number]);
        if number.is_multiple_of(5) {
            hash.remove(key);
        }
    }
    hash.chains.index.begin_growth(|| hash.reservations.lease().ok()).expect("there is memory");
    hash.chains.index.split(0..4);
    let single: Vec<_> = keys.iter().map(|key| hash.value(key)).collect();
    assert!(single.contains(&None) && single.iter().flatten().count() > keys.len() / 3);
    for len in 0..keys.len() {
        let mut found = vec![Some(b"not called".to_vec()); len];
        let storage = &SimStorage::new(1);
        hash.multi_get(storage, &keys[..len], |number, value| found[number] = value.map(<[u8]>::to_vec)).unwrap();
        assert_eq!((found, storage.io_index()), (single[..len].to_vec(), 0));
    }
}
