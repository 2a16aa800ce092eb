//! A crash at every I/O of compactions and merges (traps 11 and 14): files that a durable record names exist, and are
//! complete.

use std::collections::BTreeMap;

use ecotone_testkit::sim::Crash;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Works until all is done or the machine is off. Returns, for each possible beginning of the log, the model of all
/// records below it.
fn work(fixture: &Fixture) -> BTreeMap<Address, Model> {
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(5));
    let mut history = BTreeMap::from([(Address::FIRST, Model::new())]);
    for round in 0..6 {
        for _ in 0..40 {
            let key = random.random_range(0..100u32).to_be_bytes();
            if random.random_bool(0.3) {
                fixture.remove(&key);
                model.remove(&key[..]);
            } else {
                fixture.set(&key, &[round; 30]);
                model.insert(key.to_vec(), vec![round; 30]);
            }
        }
        history.insert(fixture.hash.chains.log.close_page(), model.clone());
        let step = fixture.compact().and_then(|()| match round {
            1 | 4 => fixture.compactor().merge_any_base().map(drop),
            3 => fixture.compactor().merge(),
            _ => Ok(()),
        });
        if step.is_err() {
            break;
        }
        if round % 2 == 1 {
            fixture.journal.sync();
        }
    }
    history
}

#[test]
fn trap_11_a_crash_at_any_moment_of_a_compaction_loses_nothing() {
    let whole = Fixture::new(1, false);
    work(&whole);
    let ios = whole.disk.io_index();
    assert!(whole.environment.health.check().is_ok() && ios > 50, "{ios} I/Os");
    for index in 0..ios {
        let fixture = Fixture::new(1, false);
        fixture.disk.crash_at(index);
        let history = work(&fixture);
        for (number, kept) in fixture.journal.survivors().into_iter().enumerate() {
            for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(index)] {
                let environment = fixture.disk.crash(how).environment(SEED, 64 << 20);
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

/// After any failure the old state remains, and no orphan is left.
#[test]
fn a_failed_compaction_or_base_merge_changes_nothing() {
    let whole = Fixture::new(1, true);
    work(&whole);
    for index in 0..whole.disk.io_index() {
        let fixture = Fixture::new(1, true);
        fixture.disk.fail_at(index, std::io::ErrorKind::Other);
        work(&fixture);
        let needed = files(fixture.journal.records().last().unwrap());
        let there: BTreeSet<_> = fixture.disk.files().into_keys().collect();
        // A removal that fails leaves an orphan.
        let orphans = there.difference(&needed).count();
        assert!(needed.is_subset(&there) && orphans <= 1, "I/O {index}: {orphans} orphans");
        check(&fixture.environment, &fixture.hash.cold.runs());
    }
}

/// On a full disk work that needs space fails, and it is done when there is space again.
#[test]
fn a_full_disk_stops_compaction_and_harms_nothing() {
    let fixture = Fixture::new(1, true);
    (0..300u32).for_each(|key| fixture.set(&key.to_be_bytes(), &[1; 100]));
    fixture.disk.space_limit(8 << 10);
    assert!(fixture.compact().unwrap_err().is_no_space());
    assert!(fixture.disk.files().is_empty() && fixture.environment.health.check().is_ok());
    (0..300u32).for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()), Some(vec![1; 100])));
    fixture.disk.space_limit(4 << 20);
    fixture.compact().unwrap();
    fixture.disk.space_limit(fixture.disk.space_used() + 4096);
    assert!(fixture.merge_all_bases().unwrap_err().is_no_space());
    fixture.disk.space_limit(4 << 20);
    fixture.merge_all_bases().unwrap();
    (0..300u32).for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()), Some(vec![1; 100])));
}
