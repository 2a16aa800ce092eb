//! Records over words against values in a map.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

/// An expected record.
struct Expected {
    address: Address,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    capacity: usize,
    sealed: bool,
    link: Link,
}

fn bytes(random: &mut SmallRng, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.random()).collect()
}

/// Lengths of a key and a value, mostly short, sometimes the longest.
fn lengths(random: &mut SmallRng) -> (usize, usize) {
    let most = if random.random_bool(0.1) { 1024 } else { 20 };
    let key = random.random_range(1..=most);
    let most = if random.random_bool(0.1) { 1900 - key } else { 40 };
    (key, random.random_range(0..=most))
}

fn append<'p>(log: &'p HotLog, random: &mut SmallRng, pin: &'p Pin<'_>) -> Option<Expected> {
    let (key_len, value_len) = lengths(random);
    let (key, value) = (bytes(random, key_len), bytes(random, value_len));
    let value = random.random_bool(0.9).then_some(value);
    let raw = log.allocate(&key, value.as_deref(), pin)?;
    let (address, link) = (raw.address(), Link::from_bits(random.random()));
    raw.set_link(link);
    raw.made_known();
    let capacity = (key.len() + value.as_ref().map_or(0, Vec::len)).div_ceil(8);
    Some(Expected { address, key, value, capacity, sealed: false, link })
}

fn change(log: &HotLog, expected: &mut Expected, random: &mut SmallRng, pin: &Pin<'_>) {
    let mut locked = log.record(expected.address, pin).unwrap().lock();
    let mut old = Vec::new();
    locked.read(&mut old);
    assert_eq!(old, expected.value.clone().unwrap_or_default());
    let value_len = lengths(random).1;
    let value = random.random_bool(0.8).then(|| bytes(random, value_len));
    let has_room = locked.has_room(value.as_ref().map_or(0, Vec::len));
    assert_eq!(has_room, expected.key.len() + value.as_ref().map_or(0, Vec::len) <= 8 * expected.capacity);
    if random.random_bool(0.02) {
        locked.seal();
        expected.sealed = true;
    } else if has_room && !locked.state().sealed() {
        locked.replace(value.as_deref());
        expected.value = value;
    }
}

fn check(log: &HotLog, expected: &Expected, pin: &Pin<'_>) {
    let (record, mut value) = (log.record(expected.address, pin).unwrap(), vec![7; 3]);
    let state = record.read(&mut value);
    let kind = if expected.value.is_some() { HeaderKind::Value } else { HeaderKind::Tombstone };
    assert_eq!((state.kind(), state.sealed(), state.key_len()), (kind, expected.sealed, expected.key.len()));
    assert_eq!(
        (value, record.link(), record.capacity()),
        (expected.value.clone().unwrap_or_default(), expected.link, expected.capacity)
    );
    assert!(record.has_key(&expected.key));
    let mut other = expected.key.clone();
    *other.last_mut().unwrap() ^= 0x80;
    assert!(
        !record.has_key(&other)
            && !record.has_key(&expected.key[1..])
            && !record.has_key(&[&expected.key[..], &[0]].concat())
    );
}

#[test]
fn records_are_what_was_put_into_them() {
    for seed in 0..20 {
        let (arena, mut random) = (arena(), SmallRng::seed_from_u64(seed));
        let (domain, log) = log(&arena, 2);
        let pin = domain.pin();
        let mut all: Vec<Expected> = std::iter::from_fn(|| append(&log, &mut random, &pin)).collect();
        for _ in 0..10 * all.len() {
            let one = random.random_range(0..all.len());
            change(&log, &mut all[one], &mut random, &pin);
            check(&log, &all[one], &pin);
        }
        all.iter().for_each(|expected| check(&log, expected, &pin));
        assert!(
            all.windows(2).all(|pair| pair[0].address.plus(Record::bytes(pair[0].capacity)) <= pair[1].address),
            "seed {seed}"
        );
    }
}

#[test]
fn the_largest_record_fits_twice_into_a_page() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let pin = domain.pin();
    let places = [0; 2].map(|_| log.allocate(&[1; 1024], Some(&[2; 876]), &pin).unwrap().address());
    assert_eq!(places, [PAGE + 16, PAGE + 16 + 1920].map(Address::new));
}

/// A record without a value ends with its key, also at the end of the frame.
#[test]
fn a_key_without_a_value_may_be_the_last_of_a_frame() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let pin = domain.pin();
    let mut value = Vec::new();
    while let Some(raw) = log.allocate(b"8 bytes.", None, &pin) {
        let record = log.record(raw.address(), &pin).unwrap();
        assert_eq!((record.read(&mut value).kind(), value.len()), (HeaderKind::Tombstone, 0));
        record.lock().replace(Some(b""));
    }
    assert_eq!(log.tail(), Address::new(FRAME), "170 of them fill a page");
}

#[test]
fn a_lock_holds_off_who_saw_another_state() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let pin = domain.pin();
    let raw = log.allocate(b"key", Some(b"value"), &pin).unwrap();
    let record = log.record(raw.address(), &pin).unwrap();
    let before = record.state();
    drop(record.lock());
    assert_eq!(record.state(), before, "nothing was changed");
    let mut locked = record.lock_from(before).unwrap();
    assert!(record.lock_from(before).is_none() && record.state() != before);
    locked.replace(Some(b"other"));
    drop(locked);
    assert!(record.state() != before && record.lock_from(before).is_none(), "the same length, and yet another state");
    raw.made_known();
}

#[test]
fn threads_read_whole_values_while_others_change_them() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let address = {
        let pin = domain.pin();
        let raw = log.allocate(b"a key", Some(&[0; 300]), &pin).unwrap();
        let address = raw.address();
        raw.made_known();
        address
    };
    std::thread::scope(|scope| {
        for writer in 1..3u8 {
            let (domain, log) = (&domain, &log);
            scope.spawn(move || {
                for turn in 0..20_000u32 {
                    let len = (turn % 301) as usize;
                    let pin = domain.pin();
                    log.record(address, &pin).unwrap().lock().replace(Some(&vec![writer.wrapping_mul(len as u8); len]));
                }
            });
        }
        let mut value = Vec::new();
        for _ in 0..20_000 {
            let pin = domain.pin();
            let state = log.record(address, &pin).unwrap().read(&mut value);
            assert_eq!(state.value_len(), value.len());
            assert!(value.windows(2).all(|pair| pair[0] == pair[1]), "parts of two values");
        }
    });
}
