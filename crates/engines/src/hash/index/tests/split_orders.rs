//! All orders of a split beside what others do to its bucket, within a number of preemptions, by loom (decision 10,
//! M8). A bucket has two entries.

use super::{
    world::{World, address, link},
    *,
};
use crate::{hash::log::Link, tests::orders::spawn};

/// Tags of the two halves.
const LOW: u64 = 1;
const HIGH: u64 = 1 << (entry::TAG_BITS - 1);

/// Tries the orders of `work` with at most two preemptions. It begins with one bucket that has an entry for each half
/// and is about to be split.
fn all_orders(work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let prepare = |world: &World, arena: &Arc<Arena>| {
        world.set(LOW, 0);
        world.set(HIGH, 1);
        world.index.begin_growth(|| Some(block(arena))).expect("there is memory");
    };
    world::all_orders(2, prepare, work);
}

/// Ends the split.
fn grow(world: &World) {
    world.index.split(0..1);
    world.index.end_growth();
}

/// Both replace what they found, so one finds what the other has set. It fails where a word stays writable.
#[test]
fn nothing_that_two_set_beside_a_split_is_lost() {
    all_orders(|world| {
        let other = spawn(&world, |world| world.set(LOW, 2));
        world.index.split(0..1);
        let mine = world.set(LOW, 3);
        let others = other.join().unwrap();
        grow(&world);
        let last = world.find(LOW).unwrap();
        assert!(
            (mine, others, last) == (link(2), link(0), link(3)) || (mine, others, last) == (link(0), link(3), link(2))
        );
        assert_eq!(world.find(HIGH), Some(link(1)));
    });
}

/// A tag is inserted twice. It needs an overflow bucket in the old table, or finds room in the new one. It fails where
/// a word stays writable.
#[test]
fn inserts_beside_a_split_are_there_once() {
    all_orders(|world| {
        let other = spawn(&world, |world| world.set(LOW + 1, 2));
        let mine = world.set(LOW + 1, 3);
        world.index.split(0..1);
        let found = [other.join().unwrap(), mine];
        grow(&world);
        let last = world.find(LOW + 1).unwrap();
        assert!(found == [Link::NONE, link(2)] && last == link(3) || found == [link(3), Link::NONE] && last == link(2));
        assert_eq!((world.find(LOW), world.find(HIGH)), (Some(link(0)), Some(link(1))));
    });
}

/// Two insert by the same search, of a chain that was there and of one that was not: one of them does. It fails where a
/// word stays writable.
#[test]
fn of_two_conditional_inserts_beside_a_split_one_is_made() {
    for (tag, searched) in [(LOW, link(0)), (LOW + 1, Link::NONE)] {
        all_orders(move |world| {
            let other = spawn(&world, move |world| world.insert_if(tag, searched, 2));
            world.index.split(0..1);
            let mine = world.insert_if(tag, searched, 3);
            let others = other.join().unwrap();
            grow(&world);
            assert_ne!(mine, others);
            assert_eq!((world.find(tag), world.find(HIGH)), (Some(link(if mine { 3 } else { 2 })), Some(link(1))));
        });
    }
}

/// Two split a bucket, one of them slowly; what is changed in the next table stays changed. It fails where words are
/// made by stores.
#[test]
fn a_slow_helper_changes_nothing() {
    all_orders(|world| {
        let helper = spawn(&world, |world| world.index.split(0..1));
        world.index.split(0..1);
        world.set(HIGH, 2);
        world.set(HIGH + 1, 3);
        world.index.sweep(address(1));
        helper.join().unwrap();
        grow(&world);
        let found = [LOW, HIGH, HIGH + 1].map(|tag| world.find(tag));
        assert_eq!(found, [None, Some(link(2)), Some(link(3))]);
    });
}

/// A sweep frees an entry in one of the tables, an insert of its tag makes another: there is one, and it is the new
/// one. It fails where a sweep frees what is there now, and not what it looked at.
#[test]
fn a_sweep_beside_a_split_frees_what_is_stale() {
    all_orders(|world| {
        let sweep = spawn(&world, |world| world.index.sweep(address(1)));
        let replaced = world.set(LOW, 2);
        world.index.split(0..1);
        sweep.join().unwrap();
        assert!([link(0), Link::NONE].contains(&replaced));
        grow(&world);
        assert_eq!((world.find(LOW), world.find(HIGH)), (Some(link(2)), Some(link(1))));
    });
}

/// A reader finds an entry at every moment, and never an older value after a newer one. It fails where a reader takes a
/// frozen bucket for one without the entry.
#[test]
fn a_reader_beside_a_split_finds_what_was_there() {
    all_orders(|world| {
        let reader = spawn(&world, |world| [world.find(LOW), world.find(LOW)]);
        world.index.split(0..1);
        world.set(LOW, 2);
        world.index.end_growth();
        let read = reader.join().unwrap().map(|found| found.expect("it is always there"));
        assert!(read[0] == link(0) || read == [link(2), link(2)]);
        assert_eq!(world.find(LOW), Some(link(2)));
    });
}
