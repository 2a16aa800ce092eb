//! Additions and appends, under the lock of a record and without it.

use std::{
    sync::atomic::{AtomicI64, AtomicUsize, Ordering},
    thread,
};

use ecotone_engine::{contract::UpdateAction, merge::Merge};
use ecotone_substrate::{Error, limits};

use super::*;

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("a counter"))
}

#[test]
fn what_is_merged_stays_in_place_while_it_has_room() {
    let hash = engine(3, 4);
    hash.merge(b"counter", Merge::Add(5)).unwrap();
    let end = hash.chains.log.tail();
    (0..10).for_each(|_| hash.merge(b"counter", Merge::Add(-1)).unwrap());
    assert_eq!((number(&hash.value(b"counter").unwrap()), hash.chains.log.tail()), (-5, end));
    hash.remove(b"counter");
    hash.merge(b"counter", Merge::Add(7)).unwrap();
    assert_eq!(
        (number(&hash.value(b"counter").unwrap()), hash.chains.log.tail()),
        (7, end),
        "a tombstone counts as nothing"
    );
    hash.merge(b"text", Merge::Append(b"ab")).unwrap();
    hash.merge(b"text", Merge::Append(b"cd")).unwrap();
    let end = hash.chains.log.tail();
    assert_eq!(hash.value(b"text"), Some(b"abcd".to_vec()));
    hash.merge(b"text", Merge::Append(b"more than has room")).unwrap();
    assert_eq!(hash.value(b"text"), Some(b"abcdmore than has room".to_vec()));
    assert!(hash.chains.log.tail() > end);
    hash.chains.log.raise_read_only(hash.chains.log.close_page());
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
            hash.chains.log.raise_read_only(hash.chains.log.close_page());
        }
    }
    hash.merge(b"text", Merge::Append(&vec![b'.'; limits::MAX_RECORD - b"textno counter".len()])).unwrap();
    assert_eq!(hash.value(b"text").unwrap().len(), limits::MAX_RECORD - 4);
}

/// All threads use one key at a time. Some make its value longer and others shorter, so records are given up all the
/// time that additions would still change in place.
#[test]
fn trap_10_merges_beside_updates_lose_nothing() {
    const CROWDS: usize = 120;
    const TURNS: usize = 1_600;
    let (hash, crowds, turns) = (engine(0, 1024), crowds(2), AtomicUsize::new(0));
    let added: Vec<_> = (0..CROWDS).map(|_| AtomicI64::new(0)).collect();
    let update = |key: &[u8], length: usize| {
        hash.modify(key, &mut |old, new| {
            let before = old.map_or(0, |old| number(&old[..8]));
            new.extend_from_slice(&(before + 1).to_le_bytes());
            new.resize(8 + length, 0);
            UpdateAction::Store
        })
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let turn = turns.fetch_add(1, Ordering::Relaxed);
                    let Some(added) = added.get(turn / TURNS) else { break };
                    let key = &crowds[turn / TURNS][turn / 64 % 2];
                    match turn % 3 {
                        0 => update(key, turn % TURNS / 4).unwrap(),
                        1 => update(key, 0).unwrap(),
                        // A value of another length is no counter, and stays as it is.
                        _ if matches!(hash.merge(key, Merge::Add(1)), Err(Error::Invalid(_))) => continue,
                        _ => {}
                    }
                    added.fetch_add(1, Ordering::Relaxed);
                    if turn.is_multiple_of(256) {
                        hash.freeze(1);
                    }
                }
            });
        }
    });
    let merged = added.iter().map(|added| added.load(Ordering::Relaxed) - (2 * TURNS / 3) as i64).sum::<i64>();
    assert!(merged > 1_000, "{merged} additions met a counter");
    for (keys, added) in crowds.iter().zip(added) {
        let sum: i64 = keys.iter().filter_map(|key| hash.value(key)).map(|value| number(&value[..8])).sum();
        assert_eq!(sum, added.into_inner());
    }
}
