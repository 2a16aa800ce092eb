//! The memtable, compared with a map, by one thread and by several.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64;

use crate::memtable::tests::*;

/// What the memtable has for a key: the value, or `None` for a tombstone, and the sequence.
type Said = (Option<Vec<u8>>, Seq);
/// The expected records.
type Model = BTreeMap<Vec<u8>, Said>;

fn bytes(random: &mut SmallRng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// One of 400 keys, with a prefix or without, mostly short.
fn key(random: &mut SmallRng) -> Vec<u8> {
    let number = random.random_range(0..400_u32);
    match number % 8 {
        0 => number.to_be_bytes().to_vec(),
        1 => [&b"user/"[..], &vec![b'k'; number as usize % 100][..], &number.to_le_bytes()].concat(),
        2 => [&b"user/"[..], &[b'l'; 1010]].concat()[..(number as usize * 2 + 1).min(1015)].to_vec(),
        _ => [&b"user/"[..], &number.wrapping_mul(0x9E37_79B9).to_be_bytes()].concat(),
    }
}

fn value(random: &mut SmallRng) -> Option<Vec<u8>> {
    let length = match random.random_range(0..10) {
        0 => return None,
        1 => random.random_range(0..876),
        _ => random.random_range(0..40),
    };
    Some(bytes(random, length))
}

/// The current record of a cursor.
fn present(cursor: &Cursor<'_>) -> (Vec<u8>, Said) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    cursor.read_key(&mut key);
    let (answer, seq) = cursor.read(&mut value);
    (key, ((answer == Answer::Value).then_some(value), seq))
}

fn walk(memtable: &Memtable, forward: bool) -> Vec<(Vec<u8>, Said)> {
    let (mut cursor, mut all) = (memtable.cursor(), Vec::new());
    if !forward {
        while cursor.advance() {}
    }
    while if forward { cursor.advance() } else { cursor.retreat() } {
        all.push(present(&cursor));
    }
    all
}

/// Checks all records, in both directions and around keys.
fn check(fixture: &Fixture, model: &Model, random: &mut SmallRng) {
    let expected: Vec<_> = model.iter().map(|(key, record)| (key.clone(), record.clone())).collect();
    assert_eq!(walk(&fixture.memtable, true), expected);
    let backward: Vec<_> = walk(&fixture.memtable, false).into_iter().rev().collect();
    assert_eq!(backward, expected);
    for _ in 0..100 {
        let key = key(random);
        assert_eq!(fixture.get(xxh3_64(&key), &key).as_ref(), model.get(&key));
        let mut cursor = fixture.memtable.cursor();
        let there = cursor.seek(&key);
        let next = model.range(key.clone()..).next();
        assert_eq!(there.then(|| present(&cursor)).as_ref().map(|(key, record)| (key, record)), next);
        let before = cursor.retreat().then(|| present(&cursor));
        assert_eq!(before.as_ref().map(|(key, record)| (key, record)), model.range(..key).next_back());
    }
}

#[test]
fn a_memtable_is_a_map() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let fixture = Fixture::new([&b""[..], b"user/", b"user/k", b"z"][seed as usize % 4]);
        let mut model = Model::new();
        for seq in 100..3100 {
            let (key, value) = (key(&mut random), value(&mut random));
            if random.random_bool(0.1) {
                let written = fixture.overwrite(&key, value.as_deref(), seq);
                assert!(!written || model.contains_key(&key));
                if !written {
                    continue;
                }
            } else {
                fixture.write(xxh3_64(&key), &key, value.as_deref(), seq);
            }
            model.insert(key, (value, seq));
        }
        assert!(fixture.memtable.smallest().is_some_and(|smallest| (100..200).contains(&smallest)));
        check(&fixture, &model, &mut random);
    }
}

#[test]
fn its_bytes_are_its_slabs_and_each_write_takes_no_more_words_than_it_said() {
    let (fixture, mut random) = (Fixture::new(b""), SmallRng::seed_from_u64(1));
    assert_eq!((fixture.memtable.bytes(), fixture.memtable.smallest()), (0, None));
    let mut words = 0;
    for seq in 0..20_000_u64 {
        let key = bytes(&mut random, 8);
        words += Memtable::words(xxh3_64(&key), &key, Some(&[7; 100]));
        fixture.write(xxh3_64(&key), &key, Some(&[7; 100]), seq);
        assert_eq!(fixture.memtable.bytes(), fixture.memory.tagged_bytes(0));
    }
    let a_record = words as f64 * 8.0 / 20_000.0;
    assert!((149.0..155.0).contains(&a_record), "{a_record} bytes for 8 + 100");
    // The unused end of a slab is less than a record, and shortcuts take a sixteenth.
    assert!(fixture.memtable.bytes() <= words * 8 * 16 / 15 * 101 / 100 + Size::Slab.bytes());
    let before = fixture.memtable.bytes();
    (0..2_000).for_each(|seq| fixture.write(0, b"one key", Some(&[1; 100]), 20_000 + seq));
    assert_eq!(fixture.memtable.bytes(), before, "a change in place takes nothing");
    drop(fixture.memtable);
    assert_eq!(fixture.memory.tagged_bytes(0), 0);
}

/// Most keys are found, since there are more shortcuts than keys. Of the tenth that is written last nearly all are
/// found.
#[test]
fn most_keys_are_found_by_shortcuts_and_nearly_all_that_are_written_again_and_again() {
    let fixture = Fixture::new(b"");
    let key = |number: u32| number.wrapping_mul(0x9E37_79B9).to_be_bytes();
    let overwritten = |keys: u32| {
        let there = |number: &u32| fixture.overwrite(&key(*number), Some(&[8; 100]), 7);
        (0..keys).filter(there).count() as f64 / f64::from(keys)
    };
    let write =
        |keys: u32| (0..keys).for_each(|number| fixture.write(xxh3_64(&key(number)), &key(number), Some(&[7; 100]), 7));
    write(20_000);
    // Slabs that were added meanwhile have taken over the hashes of many keys.
    write(20_000);
    let of_all = overwritten(20_000);
    write(2_000);
    let of_some = overwritten(2_000);
    assert!((0.6..1.0).contains(&of_all) && of_some > 0.97, "{of_all}, {of_some}");
}

/// Each thread writes its own keys, which lie between those of the others. Readers see whole values that never become
/// older, and walks are in order.
#[test]
fn threads_write_between_each_other_and_nothing_is_lost() {
    const WRITERS: u64 = 3;
    let (fixture, done) = (Fixture::new(b"user"), AtomicBool::new(false));
    let of = |random: &mut SmallRng, writer: u64| (random.random_range(0..500) * WRITERS + writer).to_be_bytes();
    let models: Vec<Model> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let fixture = &fixture;
                scope.spawn(move || {
                    let (mut random, mut model) = (SmallRng::seed_from_u64(writer), Model::new());
                    for turn in 0..6_000 {
                        let (key, seq) = (of(&mut random, writer), 1 + turn * WRITERS + writer);
                        let length = random.random_range(1..60);
                        let value = random.random_bool(0.9).then(|| vec![seq as u8; length]);
                        fixture.write(xxh3_64(&key), &key, value.as_deref(), seq);
                        assert_eq!(fixture.get(xxh3_64(&key), &key), Some((value.clone(), seq)));
                        model.insert(key.to_vec(), (value, seq));
                    }
                    model
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let (mut random, mut newest) = (SmallRng::seed_from_u64(9), BTreeMap::new());
            while !done.load(Relaxed) {
                let writer = random.random_range(0..WRITERS);
                let key = of(&mut random, writer);
                if let Some((value, seq)) = fixture.get(xxh3_64(&key), &key) {
                    assert!(
                        value.is_none_or(|value| value.iter().all(|byte| *byte == seq as u8)),
                        "parts of two values"
                    );
                    assert!(newest.insert(key, seq).is_none_or(|before| before <= seq), "it became older");
                } else {
                    assert!(!newest.contains_key(&key), "it was there, and then not");
                }
                if random.random_bool(0.002) {
                    let keys = fixture.keys();
                    assert!(keys.is_sorted_by(|a, b| a < b));
                    assert!(newest.keys().all(|key| keys.binary_search(&key.to_vec()).is_ok()));
                }
            }
        });
        let models = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Relaxed);
        reader.join().unwrap();
        models
    });
    let model = models.into_iter().flatten().collect();
    check(&fixture, &model, &mut SmallRng::seed_from_u64(4));
    assert_eq!(fixture.memtable.bytes(), fixture.memory.tagged_bytes(0));
}
