//! Updates beside a compaction that stands still at its files: what it has copied changes no more (decision 10,
//! invariants 6 and 11).

use std::thread;

use ecotone_testkit::sim::{Phase, Walk};

use super::*;
use crate::{engine::Outcome, merge::Merge};

const KEY: &[u8] = b"key";

/// Something that is read-only in a whole page, which can be compacted.
fn frozen(world: &World) -> Address {
    let until = world.hash.log.close_page();
    world.hash.log.freeze(until);
    until
}

/// What an update leaves of the value "1" if it comes while a compaction stands still for the so manieth time; `None`
/// if it does so less often.
fn beside_compaction(stops: usize, update: fn(&World)) -> Option<Option<Vec<u8>>> {
    let world = World::new(1, true);
    world.set(KEY, b"1");
    let until = frozen(&world);
    let updated = thread::scope(|scope| {
        let mut compaction = Walk::new(scope, &[Phase::Table], || world.compactor().compact(until).unwrap());
        if (0..stops).any(|_| compaction.step().is_some()) {
            return false;
        }
        update(&world);
        compaction.finish();
        true
    });
    updated.then(|| world.value(KEY))
}

/// At whatever stop of a compaction an update comes, this is what it leaves.
#[track_caller]
fn leaves(update: fn(&World), left: Option<&[u8]>) {
    let found: Vec<_> = (1..).map_while(|stops| beside_compaction(stops, update)).collect();
    assert!(found.len() >= 4, "it stood still {} times", found.len());
    found.iter().enumerate().for_each(|(stop, found)| assert_eq!(found.as_deref(), left, "at stop {stop}"));
}

#[test]
fn trap_10_what_compaction_copies_is_not_changed_in_place() {
    leaves(|world| world.set(KEY, b"2"), Some(b"2"));
    leaves(|world| world.remove(KEY), None);
    leaves(|world| world.hash.merge(KEY, Merge::Append(b"2")).unwrap(), Some(b"12"));
    let append = |world: &World| {
        let mut change = |old: Option<&[u8]>, new: &mut Vec<u8>| {
            new.extend_from_slice(old.unwrap_or_default());
            new.push(b'2');
            Outcome::Store
        };
        world.hash.modify(KEY, &mut change).unwrap();
    };
    leaves(append, Some(b"12"));
    leaves(|world| world.hash.modify(KEY, &mut |_, _| Outcome::Delete).unwrap(), None);
}

/// The value was read where it could still be changed in place, and all of a compaction or a part of it comes before
/// the update is written.
#[test]
fn trap_10_an_update_by_a_search_before_a_compaction_is_not_made_in_what_it_copies() {
    for stops in 1..=8 {
        let world = &World::new(1, true);
        world.set(KEY, b"1");
        thread::scope(|scope| {
            let mut compaction = None;
            let mut change = |old: Option<&[u8]>, new: &mut Vec<u8>| {
                compaction.get_or_insert_with(|| {
                    let until = frozen(world);
                    let mut compaction =
                        Walk::new(scope, &[Phase::Table], move || world.compactor().compact(until).unwrap());
                    (0..stops).any(|_| compaction.step().is_some());
                    compaction
                });
                new.extend_from_slice(old.unwrap_or_default());
                new.push(b'2');
                Outcome::Store
            };
            world.hash.modify(KEY, &mut change).unwrap();
        });
        assert_eq!(world.value(KEY), Some(b"12".to_vec()), "after {stops} stops");
    }
}
