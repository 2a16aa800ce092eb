//! Updates beside a compaction that pauses at its files: copied records do not change any more (hash-protocol.md,
//! invariants 6 and 11).

use std::thread;

use ecotone_engine::{contract::UpdateAction, merge::Merge};
use ecotone_testkit::sim::{Phase, SteppedThread};

use super::*;

const KEY: &[u8] = b"key";

/// Closes the page at the end of the log and makes it read-only, so that it can be compacted.
fn frozen(fixture: &Fixture) -> Address {
    let until = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(until);
    until
}

/// The value that an update leaves of the value "1" if it comes at stop number `stops` of a compaction; `None` if there
/// are fewer stops.
fn beside_compaction(stops: usize, update: fn(&Fixture)) -> Option<Option<Vec<u8>>> {
    let fixture = Fixture::new(1, true);
    fixture.set(KEY, b"1");
    let until = frozen(&fixture);
    let updated = thread::scope(|scope| {
        let mut compaction = SteppedThread::new(scope, &[Phase::Table], || fixture.compactor().compact(until).unwrap());
        if (0..stops).any(|_| compaction.step().is_some()) {
            return false;
        }
        update(&fixture);
        compaction.finish();
        true
    });
    updated.then(|| fixture.value(KEY))
}

/// Checks the value that an update leaves, at every stop of a compaction.
#[track_caller]
fn leaves(update: fn(&Fixture), left: Option<&[u8]>) {
    let found: Vec<_> = (1..).map_while(|stops| beside_compaction(stops, update)).collect();
    assert!(found.len() >= 4, "it stood still {} times", found.len());
    found.iter().enumerate().for_each(|(stop, found)| assert_eq!(found.as_deref(), left, "at stop {stop}"));
}

#[test]
fn trap_10_what_compaction_copies_is_not_changed_in_place() {
    leaves(|fixture| fixture.set(KEY, b"2"), Some(b"2"));
    leaves(|fixture| fixture.remove(KEY), None);
    leaves(|fixture| fixture.hash.merge(KEY, Merge::Append(b"2")).unwrap(), Some(b"12"));
    let append = |fixture: &Fixture| {
        let mut change = |old: Option<&[u8]>, new: &mut Vec<u8>| {
            new.extend_from_slice(old.unwrap_or_default());
            new.push(b'2');
            UpdateAction::Store
        };
        fixture.hash.modify(KEY, &mut change).unwrap();
    };
    leaves(append, Some(b"12"));
    leaves(|fixture| fixture.hash.modify(KEY, &mut |_, _| UpdateAction::Delete).unwrap(), None);
}

/// The value was read while it could be changed in place, and a compaction runs wholly or partly before the update is
/// written.
#[test]
fn trap_10_an_update_by_a_search_before_a_compaction_is_not_made_in_what_it_copies() {
    for stops in 1..=8 {
        let fixture = &Fixture::new(1, true);
        fixture.set(KEY, b"1");
        thread::scope(|scope| {
            let mut compaction = None;
            let mut change = |old: Option<&[u8]>, new: &mut Vec<u8>| {
                compaction.get_or_insert_with(|| {
                    let until = frozen(fixture);
                    let mut compaction =
                        SteppedThread::new(scope, &[Phase::Table], move || fixture.compactor().compact(until).unwrap());
                    (0..stops).any(|_| compaction.step().is_some());
                    compaction
                });
                new.extend_from_slice(old.unwrap_or_default());
                new.push(b'2');
                UpdateAction::Store
            };
            fixture.hash.modify(KEY, &mut change).unwrap();
        });
        assert_eq!(fixture.value(KEY), Some(b"12".to_vec()), "after {stops} stops");
    }
}
