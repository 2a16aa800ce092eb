//! Absorptions that something else goes on beside.

use std::{thread, time::Duration};

use ecotone_substrate::{Error, Seq};
use ecotone_testkit::sim::{Phase, Walk};

use super::world::{Model, World, key};
use crate::{
    adaptive::{AdaptiveOptions, blob::Blob},
    engine::Engine,
    lsm::Merged,
};

const KEYS: u32 = 1200;
/// Long enough for a thread to come to a mutex.
const WHILE: Duration = Duration::from_millis(20);

fn put(world: &mut World, model: &mut Model, numbers: impl Iterator<Item = u32>, value: &[u8]) {
    for number in numbers {
        world.put(model, number, Some(value));
    }
    // The lsm's part alone, since pages may stand still.
    world.keyspace.lsm.flush(Seq::MAX).unwrap();
}

/// What was flushed meanwhile is above what the job has, and is left for the next one.
#[test]
fn a_compaction_ends_though_something_is_flushed_in_each_absorption() {
    let [alone, beside] = [false, true].map(|is_flushing| {
        let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
        put(&mut world, &mut model, 0..KEYS, &[0; 100]);
        world.keyspace.absorb(&key(400), &key(800)).unwrap();
        for round in 1..=6 {
            put(&mut world, &mut model, (0..KEYS).step_by(4), &[round; 100]);
        }
        let (before, lsm) = (world.stat("compactions"), world.keyspace.lsm.lsm().clone());
        let mut turns = 0;
        while world.stat("compactions") == before {
            turns += 1;
            thread::scope(|scope| {
                let mut job = Walk::new(scope, &[Phase::Pages], || lsm.compact_next());
                for stop in 1.. {
                    if let Some(compacted) = job.step() {
                        return assert!(compacted.unwrap());
                    }
                    if is_flushing && stop == 3 && turns < 8 {
                        put(&mut world, &mut model, (0..KEYS).step_by(60), &[100 + turns; 50]);
                    }
                }
            });
        }
        world.expect(&model);
        while world.environment.scheduler.run_one() {}
        world.expect(&model);
        world.reopen();
        world.expect(&model);
        turns
    });
    // What is flushed makes pieces a little smaller.
    assert!(alone > 1 && beside <= alone + 2 && beside < 8, "{beside} turns instead of {alone}");
}

/// It is another job than that for which bytes were allowed.
#[test]
fn what_is_absorbed_before_a_merge_is_none_of_its_bytes() {
    let (mut world, mut model) = (World::new(6, AdaptiveOptions::default()), Model::new());
    put(&mut world, &mut model, 0..2 * KEYS, &[0; 100]);
    world.keyspace.absorb(b"a", &key(KEYS)).unwrap();
    // So much that it is less to have it in pages than to write it twice.
    for round in 1..=2 {
        put(&mut world, &mut model, (0..2 * KEYS).step_by(6), &[round; 300]);
    }
    let (lsm, mut ways) = (world.keyspace.lsm.lsm().clone(), 0);
    let counts = || (world.stat("compactions"), lsm.merge_next((&key(0), &key(2 * KEYS)), u64::MAX, || ()).unwrap());
    while let (compactions, Some(Merged { read, before })) = counts() {
        let is_made = world.stat("compactions") > compactions;
        assert!((read > 0) == is_made && (before > 0 || is_made), "{read} {before}");
        ways += u32::from(!is_made);
    }
    assert!(ways > 0, "nothing was absorbed before");
    world.expect(&model);
}

/// Who has to compact before he can flush does not bring a whole cover into pages first.
#[test]
fn a_turn_absorbs_one_piece_of_what_a_compaction_would_bring_below_a_floor() {
    let (mut world, mut model) = (World::new(2, AdaptiveOptions::default()), Model::new());
    put(&mut world, &mut model, 0..2 * KEYS, &[0; 100]);
    world.keyspace.absorb(b"a", b"z").unwrap();
    assert_eq!((world.stat("covers"), world.stat("tables")), (1, 0));
    // So much that it is less to have it in pages than to write it twice.
    for round in 1..=8 {
        put(&mut world, &mut model, (0..2 * KEYS).step_by(6), &[round; 100]);
    }
    let (lsm, tables) = (world.keyspace.lsm.lsm().clone(), world.stat("tables"));
    assert!(lsm.compact_next().unwrap());
    assert!(world.stat("covers") > 1, "a piece of them");
    // A table goes with the piece that has its last key.
    let more = (0..).take_while(|_| world.stat("tables") == tables && lsm.compact_next().unwrap()).count();
    assert!(more <= 2 && world.stat("covers") > 1 && (1..tables).contains(&world.stat("tables")), "{more} pieces more");
    world.expect(&model);
    world.reopen();
    world.expect(&model);
    while world.keyspace.lsm.lsm().compact_next().unwrap() {}
    world.expect(&model);
    world.keyspace.absorb(b"a", b"z").unwrap();
    assert_eq!((world.stat("covers"), world.stat("tables")), (1, 0));
    world.expect(&model);
}

/// The floor is of the version that the absorption began with. Wherever the job stands, no reader waits for it.
#[test]
fn what_is_flushed_while_its_range_is_absorbed_counts() {
    for is_covered in [false, true] {
        let (mut world, mut model) = (World::new(4, AdaptiveOptions::default()), Model::new());
        put(&mut world, &mut model, 0..KEYS, &[0; 100]);
        if is_covered {
            world.keyspace.absorb(b"a", b"z").unwrap();
            put(&mut world, &mut model, (0..KEYS).step_by(2), &[1; 100]);
        }
        let keyspace = world.keyspace.clone();
        thread::scope(|scope| {
            let mut job = Walk::new(scope, &[Phase::Pages], || keyspace.absorb(b"a", b"z"));
            let mut stops = 0;
            while job.step().is_none_or(|ended| {
                ended.unwrap();
                false
            }) {
                stops += 1;
                world.expect_reads(&model);
                if stops == 3 {
                    put(&mut world, &mut model, (0..KEYS).step_by(3), &[2; 100]);
                }
            }
            assert!(stops > 3);
        });
        world.expect(&model);
        world.reopen();
        world.expect(&model);
    }
}

/// Replay would come upon an edit that the root has, or miss one that it has not.
#[test]
fn a_root_has_all_edits_below_its_position_and_none_above() {
    for _ in 0..10 {
        let world = World::new(5, AdaptiveOptions::default());
        let (before, root) = thread::scope(|scope| {
            let mut job = Walk::new(scope, &[Phase::Pages], || world.keyspace.absorb(b"a", b"z").unwrap());
            assert!(job.step().is_none());
            let state = world.keyspace.lsm.files().structure();
            let carved = world.tail();
            // It goes on by itself.
            drop(job);
            while world.tail() == carved {
                thread::yield_now();
            }
            // Until it is at the edit, and then the checkpoint at its beginning.
            thread::sleep(WHILE);
            let before = world.tail();
            let checkpoint = scope.spawn(|| world.keyspace.checkpoint());
            thread::sleep(WHILE);
            drop(state);
            (before, checkpoint.join().unwrap().unwrap())
        });
        let is_covered = Blob::decode(&root.blob).unwrap().covers.at(b"b").is_some();
        assert_eq!(is_covered, root.structure > before, "the root of {} has what came at {before}", root.structure);
    }
}

/// Whatever it is at, it comes to its end, and no file of the keyspace comes back.
#[test]
fn an_absorption_ends_when_its_keyspace_is_dropped() {
    for stop in 1.. {
        let (mut world, mut model) = (World::new(6, AdaptiveOptions::default()), Model::new());
        put(&mut world, &mut model, 0..KEYS, &[0; 100]);
        world.keyspace.absorb(&key(400), &key(800)).unwrap();
        put(&mut world, &mut model, (0..KEYS).step_by(2), &[1; 100]);
        let (keyspace, storage) = (world.keyspace.clone(), world.environment.storage.clone());
        let files =
            || storage.list().unwrap().into_iter().filter(|file| file.keyspace() == Some(3)).collect::<Vec<_>>();
        let was_over = thread::scope(|scope| {
            let mut job = Walk::new(scope, &[Phase::Pages], || keyspace.absorb(b"a", b"z"));
            if let Some(ended) = (0..stop).find_map(|_| job.step()) {
                ended.unwrap();
                return true;
            }
            keyspace.retire();
            files().into_iter().for_each(|file| storage.remove(file).unwrap());
            let ended = job.finish();
            assert!(matches!(ended, Err(Error::Closed { .. })), "at stop {stop}: {ended:?}");
            false
        });
        if was_over {
            assert!(stop > 10, "it has {stop} I/Os on pages");
            return world.expect(&model);
        }
        while world.environment.scheduler.run_one() {}
        world.environment.health.check().unwrap();
        assert_eq!(files(), []);
    }
}

/// By what was read of tables that an absorption ends, their indexes are chosen, as by what was read of others that are
/// gone.
#[test]
fn what_was_read_of_tables_that_are_absorbed_is_not_forgotten() {
    let (mut world, mut model) = (World::new(2, AdaptiveOptions::default()), Model::new());
    put(&mut world, &mut model, 0..KEYS, &[0; 100]);
    (0..KEYS).for_each(|number| assert!(world.keyspace.get(&key(number)).unwrap().is_some()));
    let read = world.keyspace.lsm.lsm().reads();
    assert!(read >= u64::from(KEYS), "{read} blocks were read");
    world.keyspace.absorb(b"a", b"z").unwrap();
    assert_eq!(world.stat("tables"), 0);
    assert!(world.keyspace.lsm.lsm().reads() >= read);
}

/// So that the log is relieved by all keyspaces at a time.
#[test]
fn the_background_begins_with_a_flush_when_it_is_asked_to() {
    let mut world = World::new(3, AdaptiveOptions::default());
    world.write(b"key", Some(b"value"));
    world.keyspace.begin_flush(Seq::MAX);
    while world.environment.scheduler.run_one() {}
    assert_eq!((world.stat("runs"), world.keyspace.first_unflushed()), (1, None));
}
