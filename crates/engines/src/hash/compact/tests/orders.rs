//! All orders of a compaction beside who writes and reads its key, within a number of preemptions, by loom (decision
//! 10, M6).

use ecotone_sys::primitive::loom::{model::Builder, thread};

use super::*;
use crate::hash::tests::fill_up;

const KEY: &[u8] = b"k";

/// Tries the orders of `work` with at most so many preemptions. It begins with a key whose only record is to be
/// compacted, up to the address that `work` gets.
fn all_orders(preemptions: usize, work: impl Fn(Arc<World>, Address) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let disk = SimStorage::new(1);
        let environment = disk.environment(SEED, 16 << 20);
        let hash = Hash::new(&Domain::new(), &environment.memory, SEED, Sizes { bucket_bits: 0, frames: 2, copies: 0 })
            .unwrap();
        fill_up(&hash);
        let journal = Journal::new(&environment, true);
        let world = Arc::new(World { disk, environment, hash: Arc::new(hash), journal, goals: Goals::TINY });
        world.set(KEY, b"0");
        let until = world.hash.log.close_page();
        world.hash.log.freeze(until);
        work(world, until);
    });
}

fn spawn(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

fn compact(world: &World, until: Address) {
    assert_eq!(world.compactor().compact(until).unwrap(), until);
}

/// It fails where BEGIN passes the record before the run is published.
#[test]
fn a_reader_beside_a_compaction_finds_the_record() {
    all_orders(2, |world, until| {
        let compacting = spawn(&world, move |world| compact(world, until));
        assert_eq!(world.value(KEY).as_deref(), Some(&b"0"[..]));
        compacting.join().unwrap();
        assert_eq!(world.value(KEY).as_deref(), Some(&b"0"[..]));
    });
}

/// It fails where the sweep frees what is there now, and not what it looked at.
#[test]
fn an_upsert_beside_a_compaction_is_the_newest() {
    all_orders(3, |world, until| {
        let compacting = spawn(&world, move |world| compact(world, until));
        world.set(KEY, b"1");
        assert_eq!(world.value(KEY).as_deref(), Some(&b"1"[..]));
        compacting.join().unwrap();
        assert_eq!(world.value(KEY).as_deref(), Some(&b"1"[..]));
    });
}

/// It fails where a delete that finds nothing in memory writes nothing.
#[test]
fn a_delete_beside_a_compaction_hides_what_is_copied() {
    all_orders(2, |world, until| {
        let compacting = spawn(&world, move |world| compact(world, until));
        world.remove(KEY);
        assert_eq!(world.value(KEY), None);
        compacting.join().unwrap();
        assert_eq!(world.value(KEY), None);
    });
}

/// A third reads meanwhile. It fails as the first one.
#[test]
fn a_reader_beside_an_upsert_and_a_compaction_finds_one_of_both() {
    all_orders(2, |world, until| {
        let compacting = spawn(&world, move |world| compact(world, until));
        let writing = spawn(&world, |world| world.set(KEY, b"1"));
        let found = world.value(KEY).expect("it has a value");
        assert!(found == b"0" || found == b"1", "{found:?}");
        writing.join().unwrap();
        assert_eq!(world.value(KEY).as_deref(), Some(&b"1"[..]));
        compacting.join().unwrap();
        assert_eq!(world.value(KEY).as_deref(), Some(&b"1"[..]));
    });
}

/// The update goes by a search from before the key got its record. It fails where entries are freed before all are
/// unpinned who may go by the old BEGIN. The compaction goes first, so that two interruptions do: of the compaction
/// before it raises BEGIN, and of the update when it has read that.
#[test]
fn an_update_by_an_old_search_beside_a_compaction_is_refused() {
    all_orders(2, |world, _| {
        let seen = world.hash.search(&world.hash.key(b"j"), &mut Vec::new()).unwrap();
        assert!(!seen.has_value());
        world.set(b"j", b"1");
        let until = world.hash.log.close_page();
        world.hash.log.freeze(until);
        let updating = spawn(&world, move |world| {
            let written = world.hash.write_if(&world.hash.key(b"j"), &seen, Some(b"2"), &world.hash.domain.pin());
            assert_eq!(written, Ok(false));
        });
        compact(&world, until);
        updating.join().unwrap();
        assert_eq!(world.value(b"j").as_deref(), Some(&b"1"[..]));
    });
}
