//! Picking, output splitting and retention, over tables that have no file.

use std::{collections::BTreeSet, sync::Arc};

use ecotone_substrate::table::FileRef;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    compaction::{
        inputs::{output_splitter::OutputSplitter, retention::Retention},
        strategy::{
            CompactionState, CompactionStrategy, IntraL0Limits, Leveled, RelieveL0,
            cursors::CompactionCursors,
            plan::CompactionPlan,
            range_compaction::{RangeCompaction, RangeStep},
        },
    },
    manifest::{LevelId, LevelManifest, RunId, VersionEdit},
    tuning::Tuning,
    version::{
        Run, TableMeta, Version,
        tests::{Fake, fake},
    },
};

const NO_BYTES: u64 = 0;
const ABOVE_LAST: LevelId = LevelId::LAST.above().unwrap();
/// Subcompactions of three tables.
const SIZES: Tuning = Tuning { l0_target: u64::MAX, part: 300, ..Tuning::TINY };

/// The state of a keyspace that is in use, on a disk with space.
fn state(l0_target: u64, intra_l0: IntraL0Limits, cursors: &CompactionCursors) -> CompactionState<'_> {
    CompactionState { l0_target, intra_l0, idle_garbage: None, is_space_short: false, cursors }
}

fn choose(version: &Version<Fake>, l0_target: u64, intra_l0: IntraL0Limits) -> Option<CompactionPlan<Fake>> {
    Leveled.choose(version, &state(l0_target, intra_l0, &CompactionCursors::default()))
}

/// A random run: tables that do not overlap.
fn row(random: &mut SmallRng, number: &mut u32, most: usize) -> Vec<Arc<Fake>> {
    let ends: BTreeSet<u8> = (0..2 * random.random_range(1..=most)).map(|_| random.random()).collect();
    let ends: Vec<u8> = ends.into_iter().collect();
    let table = |pair: &[u8]| {
        *number += 1;
        fake(*number, pair[0], pair[1])
    };
    ends.chunks_exact(2).map(table).collect()
}

/// A random version: runs of L0 and levels that overlap in any way.
pub(super) fn version(random: &mut SmallRng) -> Version<Fake> {
    let runs = random.random_range(4..10);
    version_of(random, runs, &[RunId::at_depth(2), RunId::LAST])
}

/// A random version of so many runs of L0 and these levels.
fn version_of(random: &mut SmallRng, runs: u64, levels: &[RunId]) -> Version<Fake> {
    let (mut manifest, mut tables, mut number) = (LevelManifest::default(), Vec::new(), 0);
    for run_id in (0..runs).map(RunId::L0).chain(levels.iter().copied()) {
        let row = row(random, &mut number, if run_id.is_l0() { 3 } else { 12 });
        let added = row.iter().map(|table| (run_id, table.file())).collect();
        manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
        tables.extend(row);
    }
    Version::empty().after(&manifest, &tables).unwrap()
}

fn overlap(a: &Fake, b: &Fake) -> bool {
    a.first() <= b.last() && b.first() <= a.last()
}

/// Checks that a plan is closed: each older table that overlaps an input is an input too, or lies below the target. The
/// target has no other table between the inputs.
fn assert_closed(version: &Version<Fake>, plan: &CompactionPlan<Fake>) {
    let (files, target) = (plan.files(), plan.target);
    let is_taken = |table: &&Arc<Fake>| files.contains(&table.file());
    let inputs: Vec<_> = version.tables().filter(is_taken).collect();
    assert_eq!(inputs.len(), files.len());
    let (first, last) = (inputs.iter().map(|table| table.first()).min(), inputs.iter().map(|table| table.last()).max());
    let mut younger = Vec::new();
    for (run_id, run) in version.runs().filter(|(run_id, _)| *run_id <= target) {
        for table in run.tables().iter().filter(|table| !is_taken(table)) {
            let is_beside = Some(table.last()) < first || Some(table.first()) > last;
            let is_apart = younger.iter().all(|input: &&Arc<Fake>| !overlap(input, table));
            assert!(is_apart && (is_beside || run_id < target), "{run_id:?}: {table:?} stays");
        }
        younger.extend(run.tables().iter().filter(is_taken));
    }
    // From young to old.
    let ages: Vec<_> = plan
        .inputs
        .iter()
        .map(|(_, run)| version.runs().position(|(_, other)| other.files().any(|f| run.files().any(|g| f == g))))
        .collect();
    assert!(ages.is_sorted_by(|a, b| a < b), "{ages:?}");
}

/// Trap 12: a plan of a range compaction takes all older tables that overlap its inputs, and has some of the range.
/// There is a plan only while some of the range is above the last level, so range compaction ends.
#[test]
fn trap_12_a_piece_of_a_range_compaction_is_closed() {
    let mut random = SmallRng::seed_from_u64(7);
    let (mut tops, mut of_several, mut of_all) = (BTreeSet::new(), 0, 0);
    for _ in 0..2000 {
        let (version, lower, wide) = (version(&mut random), random.random::<u8>(), random.random_range(1..100u8));
        let key_range = (&[lower][..], &[lower.saturating_add(wide)][..]);
        let above = |(run_id, run): (RunId, &Run<Fake>)| run_id != RunId::LAST && !run.within(key_range).is_empty();
        let most = if random.random() { u64::MAX } else { random.random_range(0..5000) };
        let Some(plan) = RangeCompaction::of(&version, key_range, SIZES).next_plan(most) else { continue };
        assert!(plan.bytes() <= most);
        let several = plan.runs().next().is_none() && plan.inputs[0].1.tables().len() > 1;
        assert!(!several || plan.bytes() <= 4 * SIZES.part);
        of_several += usize::from(several);
        let places =
            [RunId::at_depth(2), plan.target].map(|run_id| plan.inputs.iter().any(|(other, _)| *other == run_id));
        of_all += usize::from(plan.runs().next().is_some() && plan.target == RunId::LAST && places == [true; 2]);
        assert!(version.runs().any(above));
        assert_closed(&version, &plan);
        let (run_id, upper) = &plan.inputs[0];
        assert!(!upper.within(key_range).is_empty() || run_id.is_l0(), "{run_id:?}");
        tops.insert((run_id.is_l0(), plan.target));
    }
    assert!(of_several > 50 && of_all > 50, "{of_several} {of_all}");
    // Level 0 moves into the last level if there is no other.
    assert_eq!(
        tops,
        BTreeSet::from([(true, 1), (true, 2), (false, 1)].map(|(is_l0, depth)| (is_l0, RunId::at_depth(depth))))
    );
}

/// Numbers of the tables of the level above the last that one plan moves down from a range, and of the tables of the
/// last level that it reads. Each has 100 bytes.
fn range_compaction(
    upper: &[(u8, u8)],
    lower: &[(u8, u8)],
    (at_once, most): (u64, u64),
) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut manifest, mut tables) = (LevelManifest::default(), Vec::new());
    for (first, run_id, ranges) in [(200, RunId::at_depth(2), upper), (100, RunId::LAST, lower)] {
        let row: Vec<_> = (first..).zip(ranges).map(|(number, (begin, end))| fake(number, *begin, *end)).collect();
        let added = row.iter().map(|table| (run_id, table.file())).collect();
        manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
        tables.extend(row);
    }
    let version = Version::empty().after(&manifest, &tables).unwrap();
    let plan = version.plan_level_range(ABOVE_LAST, (&[10], &[200]), (at_once, most))?;
    let numbers =
        |run: Option<&(RunId, Run<Fake>)>| run.map_or(vec![], |(_, run)| run.files().map(|file| file.number).collect());
    Some((numbers(plan.inputs.first()), numbers(plan.inputs.get(1))))
}

#[test]
fn neighbours_go_down_together_if_that_reads_no_more() {
    let of = |upper: &[_], lower: &[_]| range_compaction(upper, lower, (1000, u64::MAX)).unwrap();
    let row = [(10, 19), (20, 29), (30, 39)];
    assert_eq!(of(&row, &[(5, 15), (16, 31), (32, 40)]), (vec![200, 201, 202], vec![100, 101, 102]));
    assert_eq!(
        range_compaction(&row, &row, (400, u64::MAX)),
        Some((vec![200, 201], vec![100, 101])),
        "as large as may be"
    );
    assert_eq!(of(&row, &[(10, 19)]), (vec![200], vec![100]), "others overlap nothing");
    assert_eq!(of(&row, &[(30, 39)]), (vec![200], vec![]), "it overlaps nothing");
    let apart = [(10, 19), (30, 39)];
    assert_eq!(of(&apart, &row), (vec![200], vec![100]), "what lies between them is not read");
    assert_eq!(of(&[(0, 9), (30, 39)], &row), (vec![201], vec![102]), "beside the range");
    let many: Vec<_> = (0..20).map(|key| (key, key)).chain([(30, 39)]).collect();
    assert_eq!(
        range_compaction(&[(0, 25), (30, 39)], &many, (1000, 300)),
        Some((vec![201], vec![120])),
        "of the first one it is too much"
    );
    assert_eq!(range_compaction(&[(0, 25)], &many, (1000, 300)), None);
}

/// A version of these runs of L0, the oldest first, above a last level of tables of ten keys each. All tables have
/// 100 bytes.
fn over_tens(runs: &[&[(u8, u8)]]) -> Version<Fake> {
    let (mut manifest, mut tables) = (LevelManifest::default(), Vec::new());
    let mut bring = |run_id, first: u32, ranges: &[(u8, u8)]| {
        let row: Vec<_> = (first..).zip(ranges).map(|(number, (begin, end))| fake(number, *begin, *end)).collect();
        let added = row.iter().map(|table| (run_id, table.file())).collect();
        manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
        tables.extend(row);
    };
    let tens: Vec<_> = (0..10).map(|ten| (10 * ten, 10 * ten + 9)).collect();
    bring(RunId::LAST, 1, &tens);
    for (ordinal, run) in (0..).zip(runs) {
        bring(RunId::L0(ordinal), 100 * (ordinal as u32 + 1), run);
    }
    Version::empty().after(&manifest, &tables).unwrap()
}

#[test]
fn what_is_hot_goes_down_from_level_0_without_what_lies_beside_it() {
    let bytes = |runs: &[&[(u8, u8)]], key_range: (u8, u8)| {
        let version = over_tens(runs);
        let plan = version.best_l0_group_over((&[key_range.0], &[key_range.1]), LevelId::LAST, u64::MAX).unwrap();
        let of = |run_id| {
            plan.inputs.iter().filter(|(at, _)| *at == run_id).map(|(_, run)| run.tables().len()).sum::<usize>()
        };
        [RunId::L0(1), RunId::L0(0), RunId::LAST].map(of)
    };
    let (cut, whole): (&[_], &[_]) = (&[(0, 49), (50, 59), (60, 99)], &[(0, 99)]);
    assert_eq!(bytes(&[cut, cut], (50, 60)), [1, 1, 1]);
    assert_eq!(bytes(&[cut, cut], (20, 80)), [1, 1, 1], "what is beside it goes later");
    assert_eq!(bytes(&[cut, cut], (0, 40)), [1, 1, 5]);
    assert_eq!(bytes(&[cut, whole], (50, 60)), [1, 3, 10], "what overlaps goes along");
    assert_eq!(bytes(&[whole, whole], (50, 60)), [1, 1, 10], "nothing is apart");
}

/// The overlap group with the best score per byte goes down first. If there are many runs, it is one of more than a few
/// runs.
#[test]
fn what_is_written_again_and_again_goes_down_alone() {
    let (cold, hot): (&[_], &[_]) = (&[(0, 39)], &[(50, 59)]);
    let of = |cold_runs: usize, hot_runs: usize| {
        let version = over_tens(&[vec![cold; cold_runs], vec![hot; hot_runs]].concat());
        let plan = choose(&version, 400, IntraL0Limits::NONE).expect("L0 has more than it may");
        plan.files().iter().filter(|file| file.number < 100).count()
    };
    assert_eq!([of(1, 3), of(3, 3), of(1, 9), of(5, 5), of(7, 3)], [1, 1, 1, 1, 4]);
}

/// Nine runs are too many, and so small that merging them within L0 is cheap.
#[test]
fn many_small_runs_become_one_before_they_go_down() {
    let version = over_tens(&[&[(0, 99)][..]; 9]);
    let target = |size_tiered_bytes, read_triggered_bytes| {
        choose(&version, 1000, IntraL0Limits { size_tiered_bytes, read_triggered_bytes }).expect("it is due").target
    };
    assert_eq!(target(1000, NO_BYTES), RunId::L0(8));
    assert_eq!(target(NO_BYTES, NO_BYTES), RunId::LAST, "they may not become one");
    assert_eq!(target(NO_BYTES, 1000), RunId::LAST, "what goes down need not be merged before");
}

/// Trap 12: a compaction of L0 takes every older table that overlaps an input.
#[test]
fn trap_12_a_piece_is_closed() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut targets = BTreeSet::new();
    for _ in 0..2000 {
        let version = version(&mut random);
        let plan = version.plan_l0(u64::MAX).expect("there are runs");
        assert_closed(&version, &plan);
        let next = choose(&version, NO_BYTES, IntraL0Limits::NONE).expect("L0 has runs enough");
        assert_closed(&version, &next);
        targets.insert(next.target);
        assert!(Leveled.is_due(&version, &state(NO_BYTES, IntraL0Limits::NONE, &CompactionCursors::default())));
    }
    assert!(targets.len() > 1, "{targets:?}");
}

/// A choice depends on its arguments alone, is closed, and there is one just when one is said to be due.
#[test]
fn a_choice_is_pure_and_there_is_one_if_it_is_due() {
    let (mut random, mut due) = (SmallRng::seed_from_u64(3), 0);
    for _ in 0..2000 {
        let cursors = CompactionCursors::default();
        let version = if random.random() {
            let runs = random.random_range(0..6);
            version_of(&mut random, runs, &[RunId::LAST])
        } else {
            version(&mut random)
        };
        let mut some = |most: u64| if random.random() { random.random_range(0..most) } else { NO_BYTES };
        let (size_tiered_bytes, read_triggered_bytes) = (some(3000), some(3000));
        let state = CompactionState {
            l0_target: [NO_BYTES, 1500, u64::MAX][random.random_range(0..3)],
            intra_l0: IntraL0Limits { size_tiered_bytes, read_triggered_bytes },
            idle_garbage: random.random_bool(0.3).then_some(1 << 20),
            is_space_short: random.random_bool(0.3),
            cursors: &cursors,
        };
        let chosen = Leveled.choose(&version, &state);
        assert_eq!(chosen.is_some(), Leveled.is_due(&version, &state), "{state:?}");
        let again = Leveled.choose(&version, &state);
        assert_eq!(chosen.as_ref().map(CompactionPlan::files), again.as_ref().map(CompactionPlan::files));
        if let Some(plan) = chosen {
            assert_closed(&version, &plan);
            due += 1;
        }
    }
    assert!((500..1900).contains(&due), "{due}");
}

/// The inputs of the intra-L0 merge, from young to old, and its target. The runs have `runs[n]` tables of 100 bytes,
/// the oldest first.
fn become_one(runs: &[u64], limits: IntraL0Limits) -> Option<(Vec<RunId>, RunId)> {
    let (mut manifest, mut tables) = (LevelManifest::default(), Vec::new());
    for (ordinal, count) in (0..).zip(runs) {
        let row: Vec<_> =
            (0..*count).map(|table| fake((100 * ordinal + table) as u32, table as u8, table as u8)).collect();
        let added = row.iter().map(|table| (RunId::L0(ordinal), table.file())).collect();
        manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
        tables.extend(row);
    }
    let plan = Version::empty().after(&manifest, &tables).unwrap().plan_intra_l0(limits)?;
    assert_eq!(plan.inputs.iter().map(|(_, run)| run.tables().len() as u64).sum::<u64>() * 100, plan.bytes());
    Some((plan.inputs.iter().map(|(run_id, _)| *run_id).collect(), plan.target))
}

fn runs(ordinals: &[u64], target: u64) -> Option<(Vec<RunId>, RunId)> {
    Some((ordinals.iter().map(|ordinal| RunId::L0(*ordinal)).collect(), RunId::L0(target)))
}

#[test]
fn small_runs_become_one_where_the_youngest_is() {
    let small = |runs: &[u64]| become_one(runs, IntraL0Limits { size_tiered_bytes: 1000, read_triggered_bytes: 0 });
    assert_eq!(small(&[1, 1, 1]), None, "few");
    assert_eq!(small(&[1, 1, 1, 1]), runs(&[3, 2, 1, 0], 3));
    assert_eq!(
        small(&[5, 5, 1, 2, 1, 1]),
        runs(&[5, 4, 3, 2, 1], 5),
        "with the sixth there would be more than a thousand bytes"
    );
    assert_eq!(small(&[6, 2, 1, 1, 1]), runs(&[4, 3, 2, 1], 4), "the oldest is larger than all others");
    assert_eq!(small(&[1, 1, 9, 1, 1]), None, "one lies between that is larger than those behind it");
    assert_eq!(small(&[1, 1, 1, 1, 6]), runs(&[3, 2, 1, 0], 3), "the youngest is larger than all others");
    assert_eq!(small(&[1, 1, 1, 1, 3]), runs(&[3, 2, 1, 0], 3), "without the youngest it is less work for each");
    assert_eq!(small(&[1, 2, 1, 1, 9, 9]), runs(&[3, 2, 1, 0], 3), "two that are larger came later");
    assert_eq!(small(&[3, 3, 3, 3]), None, "they are too large together");
}

#[test]
fn runs_for_which_scans_have_paid_become_one_with_the_fewest_bytes_for_each() {
    let paid =
        |runs: &[u64], budget| become_one(runs, IntraL0Limits { size_tiered_bytes: 0, read_triggered_bytes: budget });
    assert_eq!(paid(&[1], 1000), None, "it is one");
    assert_eq!(paid(&[9, 1], 900), None, "not enough");
    assert_eq!(paid(&[9, 1], 1000), runs(&[1, 0], 1));
    assert_eq!(paid(&[1, 9], 1000), runs(&[1, 0], 1), "the youngest may be large");
    assert_eq!(paid(&[1, 1, 7, 1], 1000), runs(&[1, 0], 1), "older ones");
    assert_eq!(paid(&[5, 1, 1, 1], 1000), runs(&[3, 2, 1], 3), "150 for each, where all take 267");
    assert_eq!(paid(&[5, 3], 1000), runs(&[1, 0], 1));
}

/// Trap 9: a tombstone is dropped only where no older table outside the merge can have its key.
#[test]
fn trap_09_a_tombstone_stays_above_what_is_older() {
    let mut random = SmallRng::seed_from_u64(2);
    let (mut kept, mut dropped) = (0, 0);
    for _ in 0..500 {
        let version = version(&mut random);
        let plan = version.plan_l0(u64::MAX).expect("there are runs");
        let files = plan.files();
        let mut retention = Retention::of(&version, &files, None);
        for key in 0..=u8::MAX {
            let paged_ranges = |table: &Arc<Fake>| table.first() <= &[key][..] && &[key][..] <= table.last();
            for (run_id, run) in plan.inputs.iter().filter(|(_, run)| run.tables().iter().any(paged_ranges)) {
                let older = version.runs().filter(|(other, _)| other > run_id).flat_map(|(_, run)| run.tables());
                let expected = !older.filter(|table| !files.contains(&table.file())).any(paged_ranges);
                assert_eq!(retention.can_drop_tombstone(*run_id, &[key]), expected, "{run:?}");
                if expected { dropped += 1 } else { kept += 1 }
            }
        }
    }
    assert!(kept > 1000 && dropped > 1000);
}

/// The plan takes a level's table that overlaps a table of L0 which stays. That table is older than the youngest
/// input, and younger than the level's table.
#[test]
fn trap_09_a_tombstone_of_a_level_between_goes_whatever_is_younger() {
    let mut manifest = LevelManifest::default();
    let tables = [fake(1, 0, 99), fake(2, 5, 60), fake(3, 50, 99), fake(4, 0, 9)];
    for (run_id, table) in [RunId::LAST, RunId::at_depth(2), RunId::L0(0), RunId::L0(1)].into_iter().zip(&tables) {
        manifest.apply(&VersionEdit { added: vec![(run_id, table.file())], ..VersionEdit::default() }).unwrap();
    }
    let version = Version::empty().after(&manifest, &tables).unwrap();
    let plan = version.best_l0_group_over((&[0], &[9]), LevelId::LAST, u64::MAX).unwrap();
    let files = plan.files();
    assert_eq!(files.iter().map(|file| file.number).collect::<Vec<_>>(), [4, 2, 1]);
    let mut retention = Retention::of(&version, &files, None);
    assert!(
        !retention.can_drop_tombstone(RunId::L0(1), &[55]) && retention.can_drop_tombstone(RunId::at_depth(2), &[55])
    );
}

/// A fake table has 100 bytes.
#[test]
fn tables_end_where_they_are_full_and_where_the_level_behind_begins_one() {
    let behind = Run::part(vec![fake(1, 10, 19), fake(2, 30, 39), fake(3, 40, 59), fake(4, 100, 120)]);
    let cut = |behind: Option<&Run<Fake>>, full, keys: &mut dyn Iterator<Item = u8>| {
        let (mut cuts, mut bytes, mut ends) = (OutputSplitter::new(full, behind), 0, Vec::new());
        for key in keys {
            if cuts.should_split_before(&[key], bytes) {
                ends.push(key);
                bytes = 0;
            }
            bytes += 10;
        }
        ends
    };
    assert_eq!(cut(None, 50, &mut (0..=20)), [5, 10, 15, 20]);
    // At 30 the table is half full; at 10 and at 40 it is not.
    assert_eq!(cut(Some(&behind), 220, &mut (9..=60)), [30, 52]);
    assert_eq!(cut(Some(&behind), 160, &mut (20..=60)), [30, 40, 56]);
    // 30 tables of the next level are more than an output table should overlap, 16 are not.
    let many = Run::part((0..30).map(|number| fake(number.into(), 4 * number, 4 * number + 1)).collect());
    assert_eq!(cut(Some(&many), 200, &mut [1, 2, 60, 119].into_iter()), [119]);
}

#[test]
fn tables_end_before_guards_however_small_they_are() {
    let mut cuts =
        OutputSplitter::<Fake>::new(50, None).with_guards([0, 3, 4, 16, 18, 90].map(|guard| vec![guard]).to_vec());
    let (mut bytes, mut ends) = (0, Vec::new());
    for key in (0..17).chain([20]) {
        if cuts.should_split_before(&[key], bytes) {
            ends.push(key);
            bytes = 0;
        }
        bytes += 10;
    }
    assert_eq!(ends, [3, 4, 9, 14, 16, 20], "the first guard ends nothing, and one between two keys does");
}

/// The last level has shrunk, so that the level above it is no longer needed, though it still has as many bytes as
/// before.
#[test]
fn a_level_that_is_not_needed_any_more_does_not_keep_level_0_waiting() {
    let [upper, last, runs] = [1, 21, 41].map(|first| {
        (0..8).map(|number| fake(first + number, number as u8 * 4, number as u8 * 4 + 1)).collect::<Vec<_>>()
    });
    let mut manifest = LevelManifest::default();
    let added = |run_id, tables: &[Arc<Fake>]| tables.iter().map(|table| (run_id, table.file())).collect::<Vec<_>>();
    let levels = [added(RunId::at_depth(2), &upper), added(RunId::LAST, &last)].concat();
    manifest.apply(&VersionEdit { added: levels, ..VersionEdit::default() }).unwrap();
    for (ordinal, run) in (0..).zip(&runs) {
        manifest
            .apply(&VersionEdit { added: vec![(RunId::L0(ordinal), run.file())], ..VersionEdit::default() })
            .unwrap();
    }
    let version = Version::empty().after(&manifest, &[upper.clone(), last, runs].concat()).unwrap();
    let l0_target = upper.iter().map(|table| table.bytes()).sum();
    assert_eq!(version.target(ABOVE_LAST, l0_target), 0);
    let plan = choose(&version, l0_target, IntraL0Limits::NONE).unwrap();
    assert!(plan.inputs[0].0.is_l0(), "{:?}", plan.inputs[0].0);
}

/// A version of two levels, of which the upper one is above its target.
fn two_levels(upper: &[Arc<Fake>], last: &[Arc<Fake>]) -> Version<Fake> {
    let mut manifest = LevelManifest::default();
    let added = |run_id, tables: &[Arc<Fake>]| tables.iter().map(|table| (run_id, table.file())).collect::<Vec<_>>();
    let added = [added(RunId::at_depth(2), upper), added(RunId::LAST, last)].concat();
    manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
    Version::empty().after(&manifest, &[upper, last].concat()).unwrap()
}

/// The number of the upper level's table that is picked.
fn taken(version: &Version<Fake>, cursors: &mut CompactionCursors) -> u32 {
    let plan = Leveled.choose(version, &state(NO_BYTES, IntraL0Limits::NONE, cursors)).expect("the level is too large");
    cursors.advance(&plan);
    plan.inputs[0].1.tables()[0].file().number
}

#[test]
fn what_is_read_in_vain_goes_first_and_what_is_deleted_before_what_is_not() {
    let last = [fake(11, 10, 19), fake(12, 30, 39), fake(13, 50, 59)];
    let upper = |second: Arc<Fake>, third: Arc<Fake>| two_levels(&[fake(1, 10, 19), second, third], &last);
    let (second, third) = (|| fake(2, 30, 39), || fake(3, 50, 59));
    let taken = |version: Version<Fake>| taken(&version, &mut CompactionCursors::default());
    assert_eq!(taken(upper(second(), third())), 1, "they are alike");
    assert_eq!(taken(upper(second().with(1, 0), third())), 2);
    assert_eq!(taken(upper(second(), third().with(0, 1))), 3);
    assert_eq!(taken(upper(second().with(9, 0), third().with(0, 1))), 3, "a page has more bytes than nine records");
}

/// One table overlaps far more than the others, and one is never read.
#[test]
fn each_table_is_taken_within_sixteen_jobs_for_each() {
    let upper: Vec<_> = (0..8).map(|n| fake(n + 1, 10 * n as u8, 10 * n as u8 + 9).with(0, u64::from(n))).collect();
    let last: Vec<_> = (0..10).map(|n| fake(n + 11, n as u8, n as u8)).collect();
    let (version, mut cursors) = (two_levels(&upper, &last), CompactionCursors::default());
    for _ in 0..3 {
        let all: BTreeSet<_> = (0..16 * 8).map(|_| taken(&version, &mut cursors)).collect();
        assert_eq!(all.len(), 8, "{all:?}");
    }
    let best = (0..15).map(|_| taken(&version, &mut cursors)).collect::<BTreeSet<_>>();
    assert_eq!(best, BTreeSet::from([8]));
}

/// Jobs of other strategies take no turn of the level's cursor.
#[test]
fn the_turn_of_a_level_is_of_its_own_compactions() {
    let upper: Vec<_> = (0..8).map(|n| fake(n + 1, 10 * n as u8, 10 * n as u8 + 9).with(0, u64::from(n))).collect();
    let last: Vec<_> = (0..10).map(|n| fake(n + 11, n as u8, n as u8)).collect();
    let (version, mut cursors) = (two_levels(&upper, &last), CompactionCursors::default());
    let all: BTreeSet<_> = (0..16 * 8)
        .map(|_| {
            let other = RangeStep { key_range: (&[70], &[80]), most: u64::MAX, tuning: SIZES };
            let other = other.choose(&version, &state(NO_BYTES, IntraL0Limits::NONE, &cursors)).expect("it has tables");
            cursors.advance(&other);
            taken(&version, &mut cursors)
        })
        .collect();
    assert_eq!(all.len(), 8, "{all:?}");
}

/// Another job may have relieved L0 while the caller waited for the lock. Then nothing else is compacted in its place.
#[test]
fn what_relieves_level_0_leaves_other_compactions_to_the_background() {
    let (upper, last) = ([fake(1, 10, 19)], [fake(11, 10, 19)]);
    let (version, cursors) = (two_levels(&upper, &last), CompactionCursors::default());
    let state = state(NO_BYTES, IntraL0Limits::NONE, &cursors);
    assert!(Leveled.choose(&version, &state).is_some() && RelieveL0 { runs: 8 }.choose(&version, &state).is_none());
    assert!(RelieveL0 { runs: 0 }.choose(&version, &state).is_some());
}

#[test]
fn tables_with_many_tombstones_are_due_and_what_they_hide_tells_when_nobody_is_there() {
    let at = |places: &[(RunId, Arc<Fake>)]| {
        let mut manifest = LevelManifest::default();
        let added = places.iter().map(|(run_id, table)| (*run_id, table.file())).collect();
        manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
        let tables: Vec<_> = places.iter().map(|(_, table)| table.clone()).collect();
        Version::empty().after(&manifest, &tables).unwrap()
    };
    // Ten bytes a record.
    let table = |number, first, last, bytes, tombstones| fake(number, first, last).of_bytes(bytes).with(tombstones, 0);
    let (upper, last) = (RunId::at_depth(2), RunId::LAST);
    let dense = at(&[
        (upper, table(1, 0, 9, 40_000, 2100)),
        (upper, table(2, 20, 29, 40_000, 1900)),
        (last, table(3, 0, 99, 60_000, 0)),
    ]);
    let plan = dense.plan_tombstone_dense().unwrap();
    assert_eq!(plan.files(), [1, 3].map(|number| FileRef { number, birth: 7 }));
    let costly = at(&[(upper, table(1, 0, 9, 40_000, 2100)), (last, table(3, 0, 99, 1 << 20, 0))]);
    assert!(costly.plan_tombstone_dense().is_none(), "it moves too much");
    let sparse = at(&[(upper, table(2, 20, 29, 40_000, 1900)), (last, table(3, 0, 99, 1 << 20, 90_000))]);
    assert!(sparse.plan_tombstone_dense().is_none(), "nor in the last level");
    let large = 100 << 20;
    let supersedes_all =
        |tombstones| at(&[(upper, table(1, 0, 9, 80 << 20, tombstones)), (last, table(3, 0, 99, large, 0))]);
    assert!(
        !supersedes_all(3 << 20).is_littered(0, 8 << 20)
            && supersedes_all(7 << 20).is_littered(0, 8 << 20)
            && supersedes_all(3 << 20).is_littered(5 << 20, 8 << 20)
    );
    assert!(!at(&[(last, table(3, 0, 99, large, 9 << 20))]).is_littered(0, 8 << 20));
    let most = at(&[
        (upper, table(1, 0, 9, 40_000, 10)),
        (upper, table(2, 20, 29, 40_000, 20)),
        (last, table(3, 0, 99, 1 << 20, 0)),
    ]);
    assert_eq!(most.plan_idle_tombstones(1 << 20).unwrap().files()[0].number, 2);
}
