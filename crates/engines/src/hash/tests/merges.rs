//! Additions and appends, under the lock of a record and elsewhere.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use ecotone_substrate::{Error, limits};

use super::*;
use crate::merge::Merge;

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("a counter"))
}

#[test]
fn what_is_merged_stays_in_place_while_it_has_room() {
    let hash = engine(3, 4);
    hash.merge(b"counter", Merge::Add(5)).unwrap();
    let end = hash.log.tail();
    (0..10).for_each(|_| hash.merge(b"counter", Merge::Add(-1)).unwrap());
    assert_eq!((number(&hash.value(b"counter").unwrap()), hash.log.tail()), (-5, end));
    hash.remove(b"counter");
    hash.merge(b"counter", Merge::Add(7)).unwrap();
    assert_eq!((number(&hash.value(b"counter").unwrap()), hash.log.tail()), (7, end), "a tombstone counts as nothing");
    hash.merge(b"text", Merge::Append(b"ab")).unwrap();
    hash.merge(b"text", Merge::Append(b"cd")).unwrap();
    let end = hash.log.tail();
    assert_eq!(hash.value(b"text"), Some(b"abcd".to_vec()));
    hash.merge(b"text", Merge::Append(b"more than has room")).unwrap();
    assert_eq!(hash.value(b"text"), Some(b"abcdmore than has room".to_vec()));
    assert!(hash.log.tail() > end);
    hash.log.raise_read_only(hash.log.close_page());
    hash.merge(b"text", Merge::Append(b".")).unwrap();
    assert_eq!(hash.value(b"text"), Some(b"abcdmore than has room.".to_vec()));
}

#[test]
fn what_cannot_be_merged_changes_nothing() {
    let hash = engine(3, 4);
    hash.set(b"text", b"no counter");
    for mutable in [true, false] {
        assert!(matches!(hash.merge(b"text", Merge::Add(1)), Err(Error::Invalid(_))));
        let most = vec![b'.'; limits::MAX_RECORD - b"textno counter".len() + 1];
        assert!(matches!(hash.merge(b"text", Merge::Append(&most)), Err(Error::Limit { .. })));
        assert_eq!(hash.value(b"text"), Some(b"no counter".to_vec()));
        if mutable {
            hash.log.raise_read_only(hash.log.close_page());
        }
    }
    hash.merge(b"text", Merge::Append(&vec![b'.'; limits::MAX_RECORD - b"textno counter".len()])).unwrap();
    assert_eq!(hash.value(b"text").unwrap().len(), limits::MAX_RECORD - 4);
}

#[test]
fn trap_10_merges_beside_updates_lose_nothing() {
    const THREADS: i64 = 4;
    const TURNS: i64 = 20_000;
    let (hash, crowds) = (engine(0, 1024), crowds(2));
    let keys = &crowds[0];
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (hash, keys) = (&hash, keys);
            scope.spawn(move || {
                for turn in 0..TURNS {
                    let key = &keys[(turn % 2) as usize];
                    if (turn / 2 + thread) % 2 == 0 {
                        hash.merge(key, Merge::Add(1)).unwrap();
                    } else {
                        hash.modify(key, &mut |old, new| {
                            new.extend_from_slice(&(old.map_or(0, number) + 1).to_le_bytes());
                            crate::engine::Outcome::Store
                        })
                        .unwrap();
                    }
                    if turn % 16 == 0 {
                        // Both records are in the page that ends here, or before.
                        hash.log.raise_read_only(hash.log.close_page());
                    }
                }
            });
        }
    });
    let sum: i64 = keys.iter().filter_map(|key| hash.value(key)).map(|value| number(&value)).sum();
    assert_eq!(sum, THREADS * TURNS);
}

/// All append to one key at a time: where many bytes have no room a few have, so records are given up that others would still change in place.
#[test]
fn trap_10_appends_that_have_room_beside_those_that_have_none_lose_nothing() {
    const KEYS: usize = 600;
    const TURNS: usize = 99;
    let (hash, turns) = (engine(4, 1024), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let turn = turns.fetch_add(1, Ordering::Relaxed);
                    if turn >= KEYS * TURNS {
                        break;
                    }
                    let text = if turn.is_multiple_of(3) { &[b'm'; 30][..] } else { b"f" };
                    hash.merge(&(turn / TURNS).to_le_bytes(), Merge::Append(text)).unwrap();
                }
            });
        }
    });
    for key in 0..KEYS {
        let value = hash.value(&key.to_le_bytes()).unwrap();
        let many = value.iter().filter(|byte| **byte == b'm').count();
        assert_eq!((many, value.len() - many), (TURNS / 3 * 30, TURNS / 3 * 2));
    }
}
