//! The suites, on every engine.

use ecotone_testkit::{
    model::Level,
    sim::{Crash, SimStorage},
    suite::{
        Counters, Opener, add,
        campaign::{self, Fill},
        concurrent, contract,
        contract::Shape,
        crew::{
            self, Crew, Image,
            Role::{Batcher, Flusher, Reader, Scanner, Updater, Writer},
        },
        exhaustive::{self, Extent},
        interleave, space,
    },
};

use crate::{adaptive, append_only, busy, hash, hashed, in_place, lsm, store::Simulated, tree};

/// Many short steps over few keys.
const SHORT: Shape = Shape { steps: 60, keys: 24, batch: 6, fill_log: Fill::Never, keyspaces: true };
/// Fewer steps over many keys, with large batches, so that structures change.
const WIDE: Shape = Shape { steps: 40, keys: 400, batch: 120, fill_log: Fill::Sometimes, keyspaces: true };
/// So many keys that a tree's index has several pages.
const DEEP: Shape = Shape { steps: 30, keys: 6_000, batch: 1_500, fill_log: Fill::Never, keyspaces: false };
/// Few keys are written so often that records of an unlogged hash keyspace change in place and are appended again.
const REWRITTEN: Shape = Shape { steps: 200, keys: 150, batch: 100, fill_log: Fill::Never, keyspaces: false };

/// A number from the environment, for longer runs and replays.
fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Options that an adaptive keyspace uses only when they are set.
const PLACES: [(&str, &str); 2] = [("split", "down"), ("page_fill", "spread")];

fn first_seed() -> u64 {
    from_environment("ECOTONE_SEED").unwrap_or(1)
}

#[track_caller]
fn pass<T>(verdict: Result<T, String>) -> T {
    verdict.unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Returns the number of histories, and the counters of the engines.
fn contract(simulated: &Simulated, short: u64, wide: u64) -> (u64, Counters) {
    let first = first_seed();
    let mut counters = pass(contract::run(simulated, first..first + short, SHORT));
    add(&mut counters, &pass(contract::run(simulated, first..first + wide, WIDE)));
    (short + wide, counters)
}

/// In each so many sessions, on average, at least one follows a read hint and one a write hint. Replays of a seed have
/// fewer.
const LIVES_OF_HINTS: u64 = 32;

#[track_caller]
fn hints_were_followed((sessions, counters): (u64, Counters)) {
    for what in ["ranges_to_pages", "ranges_to_tables"] {
        let count = counters.get(what).copied().unwrap_or(0);
        println!("{what} in {sessions} lives: {count}");
        assert!(count >= sessions / LIVES_OF_HINTS, "{what} in {sessions} lives: {count}");
    }
}

#[test]
fn contract_of_the_tiny_in_place_engine() {
    contract(&in_place(), 60, 6);
}

#[test]
fn contract_of_the_tiny_append_only_engine() {
    contract(&append_only(), 60, 6);
}

#[test]
fn contract_of_the_tiny_hashed_engine() {
    contract(&hashed(), 60, 6);
}

#[test]
fn contract_of_the_hash_engine() {
    contract(&hash(), 60, 10);
    contract(&busy(), 20, 10);
    pass(contract::run(&busy().unlogged(), first_seed()..first_seed() + 30, REWRITTEN));
    pass(contract::run(&hash(), first_seed()..first_seed() + 3, DEEP));
}

#[test]
fn contract_of_the_tree() {
    contract(&tree(), 60, 10);
    contract(&tree().set(&[("fill", "100"), ("neighbours", "1")]), 10, 5);
    contract(&tree().set(&[("segment_pages", "1")]), 10, 5);
    // Half-empty pages are where lines are cheaper than directories.
    contract(&tree().set(&[("fill", "60"), ("segment_pages", "4"), ("model", "greedy"), ("forecast", "auto")]), 10, 5);
    contract(&tree().set(&[("record_cache", "off")]), 10, 5);
    pass(contract::run(&tree(), first_seed()..first_seed() + 3, DEEP));
}

#[test]
fn contract_of_the_lsm_engine() {
    contract(&lsm(), 60, 10);
    contract(&lsm().set(&[("index", "single"), ("filter_bits", "0"), ("compression", "lz4")]), 10, 5);
    contract(&lsm().set(&[("index", "plr"), ("error", "400")]), 10, 5);
    pass(contract::run(&lsm(), first_seed()..first_seed() + 3, DEEP));
}

#[test]
fn contract_of_the_adaptive_engine() {
    hints_were_followed(contract(&adaptive(), 60, 10));
    contract(&adaptive().set(&[("index", "single"), ("segment_pages", "2")]), 10, 5);
    contract(&adaptive().set(&[("insert", "tree")]), 20, 10);
    contract(&adaptive().set(&PLACES), 20, 10);
    pass(contract::run(&adaptive(), first_seed()..first_seed() + 3, DEEP));
}

/// Tests one in `one_in` of the longest histories; all of them with `ECOTONE_FULL=1`.
fn exhaustive(simulated: &Simulated, one_in: usize, interrupt_one_in: usize) {
    let full = std::env::var_os("ECOTONE_FULL").is_some();
    let extent = Extent { length: 3, one_in: if full { 1 } else { one_in }, first: 0, interrupt_one_in };
    println!("{:?}", pass(exhaustive::run(simulated, extent)));
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_tiny_in_place_engine() {
    exhaustive(&in_place(), 32, 60);
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_tiny_append_only_engine() {
    exhaustive(&append_only(), 32, 60);
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_tiny_hashed_engine() {
    exhaustive(&hashed(), 32, 60);
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_hash_engine() {
    exhaustive(&hash(), 32, 100);
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_tree() {
    exhaustive(&tree(), 32, 100);
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_lsm_engine() {
    exhaustive(&lsm(), 32, 100);
}

#[test]
#[ignore = "long"]
fn every_crash_of_short_histories_on_the_adaptive_engine() {
    exhaustive(&adaptive(), 32, 100);
    exhaustive(&adaptive().set(&[("insert", "tree")]), 64, 200);
    exhaustive(&adaptive().set(&PLACES), 32, 200);
}

/// Divides the crashes among the shapes. Returns their number, and the counters of the engines before them.
fn campaign(simulated: &Simulated, crashes: u64, shapes: &[Shape]) -> (u64, Counters) {
    let crashes = from_environment("ECOTONE_CRASHES").unwrap_or(crashes);
    let (mut all, mut counters) = (0, Counters::new());
    for shape in shapes {
        let report = pass(campaign::run(simulated, first_seed(), crashes.div_ceil(shapes.len() as u64), *shape));
        println!("{report}");
        all += report.total();
        add(&mut counters, &report.counters);
    }
    (all, counters)
}

#[test]
#[ignore = "long"]
fn crash_campaign_on_the_tiny_in_place_engine() {
    campaign(&in_place(), 96, &[SHORT, WIDE]);
}

#[test]
#[ignore = "long"]
fn crash_campaign_on_the_tiny_append_only_engine() {
    campaign(&append_only(), 96, &[SHORT, WIDE]);
}

#[test]
fn crash_campaign_on_the_tiny_hashed_engine() {
    campaign(&hashed(), 96, &[SHORT, WIDE]);
}

#[test]
fn crash_campaign_on_the_hash_engine() {
    campaign(&hash(), 96, &[SHORT, WIDE, DEEP]);
    campaign(&hash().budgets(&[64 << 20, 16 << 20, 24 << 20]), 48, &[SHORT, WIDE, DEEP]);
    campaign(&busy(), 96, &[SHORT, WIDE]);
}

/// All I/O of a keyspace with a disk budget passes the accounting of its files. A part of the hot log stays in
/// segments.
#[test]
fn crash_campaign_on_the_hash_engine_with_a_budget_of_disk() {
    campaign(&hash().set(&[("disk", "16777216"), ("hot_disk", "131072")]), 48, &[SHORT, WIDE, DEEP]);
}

#[test]
fn crash_campaign_on_the_tree() {
    campaign(&tree(), 96, &[SHORT, WIDE, DEEP]);
}

/// Lines beside directories, predicted fill, single pages, and a cache that keeps nothing.
#[test]
#[ignore = "long"]
fn crash_campaign_on_the_tree_with_other_options() {
    campaign(
        &tree().set(&[("fill", "60"), ("segment_pages", "4"), ("model", "greedy"), ("forecast", "auto")]),
        48,
        &[SHORT, WIDE, DEEP],
    );
    campaign(&tree().set(&[("segment_pages", "1"), ("record_cache", "off")]), 48, &[SHORT, WIDE, DEEP]);
}

#[test]
#[ignore = "long"]
fn crash_campaign_on_the_lsm_engine() {
    campaign(&lsm(), 96, &[SHORT, WIDE, DEEP]);
    campaign(&lsm().set(&[("compression", "lz4")]).budgets(&[64 << 20, 16 << 20, 24 << 20]), 48, &[SHORT, WIDE, DEEP]);
}

#[test]
#[ignore = "long"]
fn crash_campaign_on_the_adaptive_engine() {
    hints_were_followed(campaign(&adaptive(), 96, &[SHORT, WIDE, DEEP]));
    hints_were_followed(campaign(&adaptive().set(&[("insert", "tree")]), 48, &[SHORT, WIDE, DEEP]));
    hints_were_followed(campaign(&adaptive().set(&PLACES), 48, &[SHORT, WIDE, DEEP]));
}

#[test]
#[ignore = "long"]
fn crash_campaign_with_other_memory_budgets_in_each_life() {
    campaign(&tree().budgets(&[64 << 20, 16 << 20, 24 << 20]), 48, &[SHORT, WIDE, DEEP]);
}

/// A delete that is still in the log must not remove a record that was loaded later.
fn load_over_deleted(simulated: &Simulated) {
    let disk = SimStorage::new(1);
    let store = simulated.open(&disk, 1).unwrap();
    store.create(1).unwrap();
    let key = || (1, b"k".to_vec());
    store.write(&[(key(), Some(b"old".to_vec()))], Level::Sync).unwrap();
    store.write(&[(key(), None)], Level::Sync).unwrap();
    assert_eq!(store.bulk_load(1, vec![(key().1, b"loaded".to_vec())]).unwrap(), 1);
    let after = disk.crash(Crash::DropAll);
    disk.power_off();
    drop(store);
    let store = simulated.open(&after, 1).unwrap();
    assert_eq!(store.get(1, b"k").unwrap().as_deref(), Some(&b"loaded"[..]));
}

#[test]
fn a_bulk_load_survives_with_keys_that_were_deleted_before() {
    [tree(), lsm(), adaptive(), append_only(), in_place()].iter().for_each(load_over_deleted);
}

fn full_disk(simulated: &Simulated) {
    let shape = Shape { steps: 24, keyspaces: false, ..WIDE };
    let refused = pass(space::run(simulated, first_seed(), shape));
    assert!(refused > 0, "the disk was never full");
}

#[test]
fn a_full_disk_under_the_tiny_in_place_engine() {
    full_disk(&in_place());
}

#[test]
fn a_full_disk_under_the_tiny_append_only_engine() {
    full_disk(&append_only());
}

#[test]
fn a_full_disk_under_the_tiny_hashed_engine() {
    full_disk(&hashed());
}

#[test]
fn a_full_disk_under_the_hash_engine() {
    full_disk(&hash());
}

#[test]
fn a_full_disk_under_the_tree() {
    full_disk(&tree());
}

#[test]
fn a_full_disk_under_the_lsm_engine() {
    full_disk(&lsm());
}

#[test]
#[ignore = "long"]
fn a_full_disk_under_the_adaptive_engine() {
    full_disk(&adaptive());
    full_disk(&adaptive().set(&[("insert", "tree")]));
    full_disk(&adaptive().set(&PLACES));
}

/// The tiny engines hold locks during their I/O, so their calls cannot be paused there.
#[test]
#[ignore = "long"]
fn interleaved_calls_on_the_tree() {
    let histories = from_environment("ECOTONE_HISTORIES").unwrap_or(100);
    let (first, shape) = (first_seed(), interleave::Shape { steps: 400, registers: 8 });
    println!("{} stops in {histories} histories", pass(interleave::run(&tree(), first..first + histories, shape)));
}

#[test]
fn interleaved_calls_are_a_function_of_the_seed() {
    let stops = |seed| pass(interleave::run(&tree(), seed..seed + 3, interleave::Shape { steps: 300, registers: 6 }));
    assert_eq!(stops(1), stops(1));
    assert_ne!(stops(1), stops(4));
}

/// More data than fits in the smallest budget.
const COLD: u32 = 12_000;

/// Runs sessions of threads, and more of them until each of these background counters has counted at least once per so
/// many sessions. The schedule is the machine's, and a busy machine gives background work less time.
fn lives_of_threads(simulated: &Simulated, extent: concurrent::Extent, once_in: &[(&str, u64)]) {
    let databases = from_environment("ECOTONE_HISTORIES").unwrap_or(10);
    let (first, mut done) = (first_seed(), concurrent::Done::default());
    let lacks = |done: &concurrent::Done| {
        let is_rare = |(what, sessions): &&(&str, u64)| {
            done.counters.get(*what).is_none_or(|count| *count < done.crashes / sessions)
        };
        once_in.iter().find(is_rare).map(|(what, _)| *what)
    };
    for round in 0..6 {
        let seeds = first + round * databases;
        done += pass(concurrent::run(simulated, seeds..seeds + databases, extent));
        if lacks(&done).is_none() {
            break;
        }
    }
    println!("{done:?}");
    assert_eq!(lacks(&done), None, "too rarely counted in {} lives: {:?}", done.crashes, done.counters);
}

#[test]
fn threads_and_crashes_on_the_tree() {
    let extent = concurrent::Extent { sessions: 5, threads: 4, calls: 150, registers: 24, cold: COLD };
    lives_of_threads(&tree().workers(2), extent, &[]);
}

#[test]
fn threads_and_crashes_on_the_tiny_hashed_engine() {
    let extent = concurrent::Extent { sessions: 5, threads: 4, calls: 60, registers: 24, cold: 100 };
    lives_of_threads(&hashed().workers(2), extent, &[]);
}

#[test]
#[ignore = "long"]
fn threads_and_crashes_on_the_hash_engine() {
    let extent = concurrent::Extent { sessions: 5, threads: 4, calls: 150, registers: 24, cold: COLD };
    lives_of_threads(&hash().workers(2), extent, &[]);
}

/// Tables of a few records each, so that the indexes of small tables are loaded again and again.
#[test]
#[ignore = "long"]
fn threads_and_crashes_on_the_lsm_engine() {
    let extent = concurrent::Extent { sessions: 5, threads: 4, calls: 150, registers: 24, cold: COLD / 4 };
    lives_of_threads(&lsm().workers(2), extent, &[("flushes", 4), ("compactions", 4), ("index_loads", 4)]);
}

#[test]
#[ignore = "long"]
fn threads_and_crashes_on_the_adaptive_engine() {
    let extent = concurrent::Extent { sessions: 5, threads: 4, calls: 150, registers: 24, cold: COLD / 4 };
    let once_in =
        [("ranges_to_pages", 4), ("ranges_to_tables", 4), ("records_flushed_to_pages", 4), ("reactivated_ranges", 40)];
    lives_of_threads(&adaptive().workers(2), extent, &once_in);
}

/// Few records in a hot log of two pages, an index of one bucket, and a read cache that does not fit: background work
/// runs all the time.
#[test]
fn threads_and_crashes_beside_compaction_and_growth() {
    let extent = concurrent::Extent { sessions: 5, threads: 4, calls: 150, registers: 24, cold: 400 };
    let whats = ["compactions", "base_merges", "delta_merges", "index_doublings", "read_cache_evictions"];
    lives_of_threads(&busy().workers(2), extent, &whats.map(|what| (what, 4)));
}

/// Updates of both kinds against blind writes, batches and iterations, on keyspaces whose engine makes updates atomic
/// by itself.
fn updates_without_a_log(simulated: &Simulated) {
    const CREW: Crew = Crew {
        threads: &[(Updater, 40), (Updater, 40), (Writer, 20), (Batcher, 10), (Reader, 20), (Scanner, 5), (Flusher, 4)],
        registers: 4,
        crash: false,
    };
    let first = first_seed();
    let image = pass(Image::new(simulated, CREW.registers));
    let judged: u64 = (first..first + 40).map(|seed| pass(crew::run(simulated, &image, &CREW, seed)).answers).sum();
    println!("{judged} answers");
}

#[test]
fn updates_without_a_log_on_the_tiny_hashed_engine() {
    updates_without_a_log(&hashed().workers(1).unlogged());
}

#[test]
fn updates_without_a_log_on_the_hash_engine() {
    updates_without_a_log(&hash().workers(1).unlogged());
}
