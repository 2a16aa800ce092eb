//! All orders of a split beside other operations on its bucket, within a number of preemptions, by loom
//! (hash-protocol.md, M8). A bucket has two entries.

use ecotone_sys::primitive::orders::spawn;

use super::{
    fixture::{Fixture, address, link},
    *,
};
use crate::log::Link;

/// Tags of the two halves.
const LOW: u64 = 1;
const HIGH: u64 = 1 << (entry::TAG_BITS - 1);

/// Tries the orders of `work` with at most two preemptions. Each begins with one bucket that has an entry for each half
/// and is about to be split.
fn all_orders(work: impl Fn(Arc<Fixture>) + Send + Sync + 'static) {
    let prepare = |fixture: &Fixture, arena: &Arc<Arena>| {
        fixture.set(LOW, 0);
        fixture.set(HIGH, 1);
        fixture.index.begin_growth(|| Some(block(arena))).expect("there is memory");
    };
    fixture::all_orders(2, prepare, work);
}

/// Ends the split.
fn grow(fixture: &Fixture) {
    fixture.index.split(0..1);
    fixture.index.end_growth();
}

/// Both threads replace the entry that they found, so one of them finds the other's value. The test fails if a word
/// stays writable.
#[test]
fn nothing_that_two_set_beside_a_split_is_lost() {
    all_orders(|fixture| {
        let other = spawn(&fixture, |fixture| fixture.set(LOW, 2));
        fixture.index.split(0..1);
        let mine = fixture.set(LOW, 3);
        let others = other.join().unwrap();
        grow(&fixture);
        let last = fixture.find(LOW).unwrap();
        assert!(
            (mine, others, last) == (link(2), link(0), link(3)) || (mine, others, last) == (link(0), link(3), link(2))
        );
        assert_eq!(fixture.find(HIGH), Some(link(1)));
    });
}

/// Two threads insert one tag. The tag needs an overflow bucket in the old table, or finds a free entry in the new one.
/// The test fails if a word stays writable.
#[test]
fn inserts_beside_a_split_are_there_once() {
    all_orders(|fixture| {
        let other = spawn(&fixture, |fixture| fixture.set(LOW + 1, 2));
        let mine = fixture.set(LOW + 1, 3);
        fixture.index.split(0..1);
        let found = [other.join().unwrap(), mine];
        grow(&fixture);
        let last = fixture.find(LOW + 1).unwrap();
        assert!(found == [Link::NONE, link(2)] && last == link(3) || found == [link(3), Link::NONE] && last == link(2));
        assert_eq!((fixture.find(LOW), fixture.find(HIGH)), (Some(link(0)), Some(link(1))));
    });
}

/// Two threads insert by the same search, of an existing chain and of a missing one. Exactly one succeeds. The test
/// fails if a word stays writable.
#[test]
fn of_two_conditional_inserts_beside_a_split_one_is_made() {
    for (tag, searched) in [(LOW, link(0)), (LOW + 1, Link::NONE)] {
        all_orders(move |fixture| {
            let other = spawn(&fixture, move |fixture| fixture.insert_if(tag, searched, 2));
            fixture.index.split(0..1);
            let mine = fixture.insert_if(tag, searched, 3);
            let others = other.join().unwrap();
            grow(&fixture);
            assert_ne!(mine, others);
            assert_eq!((fixture.find(tag), fixture.find(HIGH)), (Some(link(if mine { 3 } else { 2 })), Some(link(1))));
        });
    }
}

/// Two threads split a bucket, one of them slowly. Changes in the next table stay. The test fails if words are made by
/// stores.
#[test]
fn a_slow_helper_changes_nothing() {
    all_orders(|fixture| {
        let helper = spawn(&fixture, |fixture| fixture.index.split(0..1));
        fixture.index.split(0..1);
        fixture.set(HIGH, 2);
        fixture.set(HIGH + 1, 3);
        fixture.index.sweep(address(1));
        helper.join().unwrap();
        grow(&fixture);
        let found = [LOW, HIGH, HIGH + 1].map(|tag| fixture.find(tag));
        assert_eq!(found, [None, Some(link(2)), Some(link(3))]);
    });
}

/// A sweep frees an entry in one of the tables, and an insert of its tag makes another. One entry is left, the new one.
/// The test fails if a sweep frees the current word instead of the word that it looked at.
#[test]
fn a_sweep_beside_a_split_frees_what_is_stale() {
    all_orders(|fixture| {
        let sweep = spawn(&fixture, |fixture| fixture.index.sweep(address(1)));
        let replaced = fixture.set(LOW, 2);
        fixture.index.split(0..1);
        sweep.join().unwrap();
        assert!([link(0), Link::NONE].contains(&replaced));
        grow(&fixture);
        assert_eq!((fixture.find(LOW), fixture.find(HIGH)), (Some(link(2)), Some(link(1))));
    });
}

/// A reader finds the entry at every moment, and never an older value after a newer one. The test fails if a reader
/// takes a frozen bucket for one without the entry.
#[test]
fn a_reader_beside_a_split_finds_what_was_there() {
    all_orders(|fixture| {
        let reader = spawn(&fixture, |fixture| [fixture.find(LOW), fixture.find(LOW)]);
        fixture.index.split(0..1);
        fixture.set(LOW, 2);
        fixture.index.end_growth();
        let read = reader.join().unwrap().map(|found| found.expect("it is always there"));
        assert!(read[0] == link(0) || read == [link(2), link(2)]);
        assert_eq!(fixture.find(LOW), Some(link(2)));
    });
}
