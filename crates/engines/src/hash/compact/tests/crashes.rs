//! A crash at every I/O of compactions, folds and merges (traps 11 and 14): what a durable record names is there, and
//! whole.

use std::collections::BTreeMap;

use ecotone_testkit::sim::Crash;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Works until all is done or the machine is off. For each address at which the log may begin then, what all below it
/// had come to.
fn work(world: &World) -> BTreeMap<Address, Model> {
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(5));
    let mut history = BTreeMap::from([(Address::FIRST, Model::new())]);
    for round in 0..6 {
        for _ in 0..40 {
            let key = random.random_range(0..100u32).to_be_bytes();
            if random.random_bool(0.3) {
                world.remove(&key);
                model.remove(&key[..]);
            } else {
                world.set(&key, &[round; 30]);
                model.insert(key.to_vec(), vec![round; 30]);
            }
        }
        history.insert(world.hash.log.close_page(), model.clone());
        let step = world.compact().and_then(|()| match round {
            1 | 4 => world.compactor().fold_any().map(drop),
            3 => world.compactor().merge(),
            _ => Ok(()),
        });
        if step.is_err() {
            break;
        }
        if round % 2 == 1 {
            world.journal.sync();
        }
    }
    history
}

#[test]
fn trap_11_a_crash_at_any_moment_of_a_compaction_loses_nothing() {
    let whole = World::new(1, false);
    work(&whole);
    let ios = whole.disk.io_index();
    assert!(whole.environment.health.check().is_ok() && ios > 50, "{ios} I/Os");
    for index in 0..ios {
        let world = World::new(1, false);
        world.disk.crash_at(index);
        let history = work(&world);
        for (number, kept) in world.journal.survivors().into_iter().enumerate() {
            for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(index)] {
                let environment = world.disk.crash(how).environment(SEED, 64 << 20);
                let runs =
                    open(&environment, &kept).unwrap_or_else(|e| panic!("I/O {index}, {how:?}, record {number}: {e}"));
                check(&environment, &runs);
                compare(&environment, &runs, &history[&kept.begin]);
            }
        }
    }
}

fn compare(environment: &Environment, runs: &Runs, model: &Model) {
    let mut frame = environment.memory.lease_essential(Component::Frames, Size::Frame).unwrap();
    for key in (0..100u32).map(u32::to_be_bytes) {
        let (hash, mut value) = (hash_of(&key), Vec::new());
        let found = runs.partition(hash).find(hash, &key, &mut frame, &mut value).unwrap();
        assert_eq!(found.then_some(value).as_ref(), model.get(&key[..]));
    }
}

/// Whatever fails, what was there stays as it was, and no file is left that nothing names.
#[test]
fn a_failed_compaction_or_fold_changes_nothing() {
    let whole = World::new(1, true);
    work(&whole);
    for index in 0..whole.disk.io_index() {
        let world = World::new(1, true);
        world.disk.fail_at(index, std::io::ErrorKind::Other);
        work(&world);
        let needed = files(world.journal.records().last().unwrap());
        let there: BTreeSet<_> = world.disk.files().into_keys().collect();
        // A removal that fails leaves a stray.
        let strays = there.difference(&needed).count();
        assert!(needed.is_subset(&there) && strays <= 1, "I/O {index}: {strays} strays");
        check(&world.environment, &world.hash.cold.runs());
    }
}

/// A full disk fails what needs space, and what comes after it is done when there is space again.
#[test]
fn a_full_disk_stops_compaction_and_harms_nothing() {
    let world = World::new(1, true);
    (0..300u32).for_each(|key| world.set(&key.to_be_bytes(), &[1; 100]));
    world.disk.space_limit(8 << 10);
    assert!(world.compact().unwrap_err().is_no_space());
    assert!(world.disk.files().is_empty() && world.environment.health.check().is_ok());
    (0..300u32).for_each(|key| assert_eq!(world.value(&key.to_be_bytes()), Some(vec![1; 100])));
    world.disk.space_limit(4 << 20);
    world.compact().unwrap();
    world.disk.space_limit(world.disk.space_used() + 4096);
    assert!(world.fold_all().unwrap_err().is_no_space());
    world.disk.space_limit(4 << 20);
    world.fold_all().unwrap();
    (0..300u32).for_each(|key| assert_eq!(world.value(&key.to_be_bytes()), Some(vec![1; 100])));
}
