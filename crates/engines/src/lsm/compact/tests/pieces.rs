//! Pieces, cuts and tombstones over tables of which nothing is on a disk.

use std::{collections::BTreeSet, sync::Arc};

use ecotone_substrate::table::File;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::lsm::{
    compact::{
        cuts::Cuts,
        descent::Descent,
        drops::Drops,
        pick::{Piece, Small},
        rounds::Rounds,
    },
    family::Sizes,
    structure::{Change, Place, Structure},
    version::{
        Ranged, Run, Version,
        tests::{Fake, fake},
    },
};

const NO_BYTES: u64 = 0;
/// Parts of three tables.
const SIZES: Sizes = Sizes { level_0: u64::MAX, part: 300, ..Sizes::TINY };

/// Tables that do not overlap.
fn row(random: &mut SmallRng, number: &mut u32, most: usize) -> Vec<Arc<Fake>> {
    let ends: BTreeSet<u8> = (0..2 * random.random_range(1..=most)).map(|_| random.random()).collect();
    let ends: Vec<u8> = ends.into_iter().collect();
    let table = |pair: &[u8]| {
        *number += 1;
        fake(*number, pair[0], pair[1])
    };
    ends.chunks_exact(2).map(table).collect()
}

/// Runs of level 0 and levels that overlap as they like.
pub(super) fn version(random: &mut SmallRng) -> Version<Fake> {
    let (mut structure, mut tables, mut number) = (Structure::default(), Vec::new(), 0);
    let runs = random.random_range(4..10);
    for place in (0..runs).map(Place::Run).chain([Place::Level(2), Place::Level(1)]) {
        let row = row(random, &mut number, if place.is_run() { 3 } else { 12 });
        let comes = row.iter().map(|table| (place, table.file())).collect();
        structure.apply(&Change { comes, ..Change::default() }).unwrap();
        tables.extend(row);
    }
    Version::empty().after(&structure, &tables).unwrap()
}

fn overlap(a: &Fake, b: &Fake) -> bool {
    a.first() <= b.last() && b.first() <= a.last()
}

/// What is older than something that is taken, and could have a key of it, is taken too, or lies below the level where
/// it goes. Nothing stays in that level between tables that are taken.
fn assert_closed(version: &Version<Fake>, piece: &Piece<Fake>) {
    let (files, target) = (piece.files(), piece.target);
    let is_taken = |table: &&Arc<Fake>| files.contains(&table.file());
    let inputs: Vec<_> = version.tables().filter(is_taken).collect();
    assert_eq!(inputs.len(), files.len());
    let (first, last) = (inputs.iter().map(|table| table.first()).min(), inputs.iter().map(|table| table.last()).max());
    let mut younger = Vec::new();
    for (place, run) in version.runs().filter(|(place, _)| *place <= target) {
        for table in run.tables().iter().filter(|table| !is_taken(table)) {
            let is_beside = Some(table.last()) < first || Some(table.first()) > last;
            let is_apart = younger.iter().all(|input: &&Arc<Fake>| !overlap(input, table));
            assert!(is_apart && (is_beside || place < target), "{place:?}: {table:?} stays");
        }
        younger.extend(run.tables().iter().filter(is_taken));
    }
    // From young to old.
    let ages: Vec<_> = piece
        .inputs
        .iter()
        .map(|(_, run)| version.runs().position(|(_, other)| other.files().any(|f| run.files().any(|g| f == g))))
        .collect();
    assert!(ages.is_sorted_by(|a, b| a < b), "{ages:?}");
}

/// Trap 12: what brings a stretch further down does so with everything older that overlaps, has some of the stretch,
/// and ends.
#[test]
fn trap_12_a_piece_of_a_stretch_is_closed() {
    let mut random = SmallRng::seed_from_u64(7);
    let (mut tops, mut of_several, mut of_all) = (BTreeSet::new(), 0, 0);
    for _ in 0..2000 {
        let (version, lower, wide) = (version(&mut random), random.random::<u8>(), random.random_range(1..100u8));
        let stretch = (&[lower][..], &[lower.saturating_add(wide)][..]);
        let above = |(place, run): (Place, &Run<Fake>)| place != Place::Level(1) && !run.within(stretch).is_empty();
        let most = if random.random() { u64::MAX } else { random.random_range(0..5000) };
        let Some(piece) = Descent::of(&version, stretch, SIZES).next_piece(most) else { continue };
        assert!(piece.bytes() <= most);
        let several = piece.runs().next().is_none() && piece.inputs[0].1.tables().len() > 1;
        assert!(!several || piece.bytes() <= 4 * SIZES.part);
        of_several += usize::from(several);
        let places = [Place::Level(2), piece.target].map(|place| piece.inputs.iter().any(|(other, _)| *other == place));
        of_all += usize::from(piece.runs().next().is_some() && piece.target == Place::Level(1) && places == [true; 2]);
        assert!(version.runs().any(above));
        assert_closed(&version, &piece);
        let (place, upper) = &piece.inputs[0];
        assert!(!upper.within(stretch).is_empty() || place.is_run(), "{place:?}");
        tops.insert((place.is_run(), piece.target));
    }
    assert!(of_several > 50 && of_all > 50, "{of_several} {of_all}");
    // Level 0 goes into the last level where there is no other.
    assert_eq!(
        tops,
        BTreeSet::from([(true, 1), (true, 2), (false, 1)].map(|(is_run, depth)| (is_run, Place::Level(depth))))
    );
}

/// Tables of 100 bytes: those of level 2 that go down at once from a stretch, and those of the last level that are read
/// for that, by their numbers.
fn of_stretch(upper: &[(u8, u8)], lower: &[(u8, u8)], (at_once, most): (u64, u64)) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut structure, mut tables) = (Structure::default(), Vec::new());
    for (first, place, ranges) in [(200, Place::Level(2), upper), (100, Place::Level(1), lower)] {
        let row: Vec<_> = (first..).zip(ranges).map(|(number, (begin, end))| fake(number, *begin, *end)).collect();
        let comes = row.iter().map(|table| (place, table.file())).collect();
        structure.apply(&Change { comes, ..Change::default() }).unwrap();
        tables.extend(row);
    }
    let version = Version::empty().after(&structure, &tables).unwrap();
    let piece = version.piece_of_stretch(2, (&[10], &[200]), (at_once, most))?;
    let numbers =
        |run: Option<&(Place, Run<Fake>)>| run.map_or(vec![], |(_, run)| run.files().map(|file| file.number).collect());
    Some((numbers(piece.inputs.first()), numbers(piece.inputs.get(1))))
}

#[test]
fn neighbours_go_down_together_if_that_reads_no_more() {
    let of = |upper: &[_], lower: &[_]| of_stretch(upper, lower, (1000, u64::MAX)).unwrap();
    let row = [(10, 19), (20, 29), (30, 39)];
    assert_eq!(of(&row, &[(5, 15), (16, 31), (32, 40)]), (vec![200, 201, 202], vec![100, 101, 102]));
    assert_eq!(of_stretch(&row, &row, (400, u64::MAX)), Some((vec![200, 201], vec![100, 101])), "as large as may be");
    assert_eq!(of(&row, &[(10, 19)]), (vec![200], vec![100]), "others overlap nothing");
    assert_eq!(of(&row, &[(30, 39)]), (vec![200], vec![]), "it overlaps nothing");
    let apart = [(10, 19), (30, 39)];
    assert_eq!(of(&apart, &row), (vec![200], vec![100]), "what lies between them is not read");
    assert_eq!(of(&[(0, 9), (30, 39)], &row), (vec![201], vec![102]), "beside the stretch");
    let many: Vec<_> = (0..20).map(|key| (key, key)).chain([(30, 39)]).collect();
    assert_eq!(
        of_stretch(&[(0, 25), (30, 39)], &many, (1000, 300)),
        Some((vec![201], vec![120])),
        "of the first one it is too much"
    );
    assert_eq!(of_stretch(&[(0, 25)], &many, (1000, 300)), None);
}

/// Runs of level 0, the oldest first, and a level of tables of ten keys each; all have 100 bytes.
fn over_tens(runs: &[&[(u8, u8)]]) -> Version<Fake> {
    let (mut structure, mut tables) = (Structure::default(), Vec::new());
    let mut bring = |place, first: u32, ranges: &[(u8, u8)]| {
        let row: Vec<_> = (first..).zip(ranges).map(|(number, (begin, end))| fake(number, *begin, *end)).collect();
        let comes = row.iter().map(|table| (place, table.file())).collect();
        structure.apply(&Change { comes, ..Change::default() }).unwrap();
        tables.extend(row);
    };
    let tens: Vec<_> = (0..10).map(|ten| (10 * ten, 10 * ten + 9)).collect();
    bring(Place::Level(1), 1, &tens);
    for (ordinal, run) in (0..).zip(runs) {
        bring(Place::Run(ordinal), 100 * (ordinal as u32 + 1), run);
    }
    Version::empty().after(&structure, &tables).unwrap()
}

#[test]
fn what_is_hot_goes_down_from_level_0_without_what_lies_beside_it() {
    let bytes = |runs: &[&[(u8, u8)]], stretch: (u8, u8)| {
        let version = over_tens(runs);
        let piece = version.column_over((&[stretch.0], &[stretch.1]), 1, u64::MAX).unwrap();
        let of = |place| {
            piece.inputs.iter().filter(|(at, _)| *at == place).map(|(_, run)| run.tables().len()).sum::<usize>()
        };
        [Place::Run(1), Place::Run(0), Place::Level(1)].map(of)
    };
    let (cut, whole): (&[_], &[_]) = (&[(0, 49), (50, 59), (60, 99)], &[(0, 99)]);
    assert_eq!(bytes(&[cut, cut], (50, 60)), [1, 1, 1]);
    assert_eq!(bytes(&[cut, cut], (20, 80)), [1, 1, 1], "what is beside it goes later");
    assert_eq!(bytes(&[cut, cut], (0, 40)), [1, 1, 5]);
    assert_eq!(bytes(&[cut, whole], (50, 60)), [1, 3, 10], "what overlaps goes along");
    assert_eq!(bytes(&[whole, whole], (50, 60)), [1, 1, 10], "nothing is apart");
}

/// What moves most for what it takes goes down first, and where there are many runs what has more than a few.
#[test]
fn what_is_written_again_and_again_goes_down_alone() {
    let (cold, hot): (&[_], &[_]) = (&[(0, 39)], &[(50, 59)]);
    let of = |cold_runs: usize, hot_runs: usize| {
        let version = over_tens(&[vec![cold; cold_runs], vec![hot; hot_runs]].concat());
        let piece = version.pick(400, Small::NONE, &mut Rounds::default()).expect("level 0 has more than it may");
        piece.files().iter().filter(|file| file.number < 100).count()
    };
    assert_eq!([of(1, 3), of(3, 3), of(1, 9), of(5, 5), of(7, 3)], [1, 1, 1, 1, 4]);
}

/// Nine runs are too many, and so small that it is little work to make one of them.
#[test]
fn many_small_runs_become_one_before_they_go_down() {
    let version = over_tens(&[&[(0, 99)][..]; 9]);
    let target = |few, paid| version.pick(1000, Small { few, paid }, &mut Rounds::default()).expect("it is due").target;
    assert_eq!(target(1000, NO_BYTES), Place::Run(8));
    assert_eq!(target(NO_BYTES, NO_BYTES), Place::Level(1), "they may not become one");
    assert_eq!(target(NO_BYTES, 1000), Place::Level(1), "what goes down need not be merged before");
}

/// Trap 12: of level 0 with a table goes everything older that overlaps it.
#[test]
fn trap_12_a_piece_is_closed() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut targets = BTreeSet::new();
    for _ in 0..2000 {
        let version = version(&mut random);
        let piece = version.piece_of_level_0(u64::MAX).expect("there are runs");
        assert_closed(&version, &piece);
        let next = version.pick(NO_BYTES, Small::NONE, &mut Rounds::default()).expect("level 0 has runs enough");
        assert_closed(&version, &next);
        targets.insert(next.target);
        assert!(version.is_due(NO_BYTES, Small::NONE));
    }
    assert!(targets.len() > 1, "{targets:?}");
}

/// The places of the runs that become one, from young to old, and where it goes, of runs of so many tables of 100
/// bytes, the oldest first.
fn become_one(runs: &[u64], small: Small) -> Option<(Vec<Place>, Place)> {
    let (mut structure, mut tables) = (Structure::default(), Vec::new());
    for (ordinal, count) in (0..).zip(runs) {
        let row: Vec<_> =
            (0..*count).map(|table| fake((100 * ordinal + table) as u32, table as u8, table as u8)).collect();
        let comes = row.iter().map(|table| (Place::Run(ordinal), table.file())).collect();
        structure.apply(&Change { comes, ..Change::default() }).unwrap();
        tables.extend(row);
    }
    let piece = Version::empty().after(&structure, &tables).unwrap().piece_of_small_runs(small)?;
    assert_eq!(piece.inputs.iter().map(|(_, run)| run.tables().len() as u64).sum::<u64>() * 100, piece.bytes());
    Some((piece.inputs.iter().map(|(place, _)| *place).collect(), piece.target))
}

fn runs(ordinals: &[u64], target: u64) -> Option<(Vec<Place>, Place)> {
    Some((ordinals.iter().map(|ordinal| Place::Run(*ordinal)).collect(), Place::Run(target)))
}

#[test]
fn small_runs_become_one_where_the_youngest_is() {
    let small = |runs: &[u64]| become_one(runs, Small { few: 1000, paid: 0 });
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
    let paid = |runs: &[u64], paid| become_one(runs, Small { few: 0, paid });
    assert_eq!(paid(&[1], 1000), None, "it is one");
    assert_eq!(paid(&[9, 1], 900), None, "not enough");
    assert_eq!(paid(&[9, 1], 1000), runs(&[1, 0], 1));
    assert_eq!(paid(&[1, 9], 1000), runs(&[1, 0], 1), "the youngest may be large");
    assert_eq!(paid(&[1, 1, 7, 1], 1000), runs(&[1, 0], 1), "older ones");
    assert_eq!(paid(&[5, 1, 1, 1], 1000), runs(&[3, 2, 1], 3), "150 for each, where all take 267");
    assert_eq!(paid(&[5, 3], 1000), runs(&[1, 0], 1));
}

/// Trap 9: a tombstone goes only where nothing older can have its key.
#[test]
fn trap_09_a_tombstone_stays_above_what_is_older() {
    let mut random = SmallRng::seed_from_u64(2);
    let (mut kept, mut dropped) = (0, 0);
    for _ in 0..500 {
        let version = version(&mut random);
        let piece = version.piece_of_level_0(u64::MAX).expect("there are runs");
        let files = piece.files();
        let mut drops = Drops::of(&version, &files);
        for key in 0..=u8::MAX {
            let covers = |table: &Arc<Fake>| table.first() <= &[key][..] && &[key][..] <= table.last();
            for (place, run) in piece.inputs.iter().filter(|(_, run)| run.tables().iter().any(covers)) {
                let older = version.runs().filter(|(other, _)| other > place).flat_map(|(_, run)| run.tables());
                let expected = !older.filter(|table| !files.contains(&table.file())).any(covers);
                assert_eq!(drops.may_drop(*place, &[key]), expected, "{run:?}");
                if expected { dropped += 1 } else { kept += 1 }
            }
        }
    }
    assert!(kept > 1000 && dropped > 1000);
}

/// What is taken along of a level lies beside what stays above it.
#[test]
fn trap_09_a_tombstone_of_a_level_between_goes_whatever_is_younger() {
    let mut structure = Structure::default();
    let tables = [fake(1, 0, 99), fake(2, 5, 60), fake(3, 50, 99), fake(4, 0, 9)];
    for (place, table) in [Place::Level(1), Place::Level(2), Place::Run(0), Place::Run(1)].into_iter().zip(&tables) {
        structure.apply(&Change { comes: vec![(place, table.file())], ..Change::default() }).unwrap();
    }
    let version = Version::empty().after(&structure, &tables).unwrap();
    let piece = version.column_over((&[0], &[9]), 1, u64::MAX).unwrap();
    let files = piece.files();
    assert_eq!(files.iter().map(|file| file.number).collect::<Vec<_>>(), [4, 2, 1]);
    let mut drops = Drops::of(&version, &files);
    assert!(!drops.may_drop(Place::Run(1), &[55]) && drops.may_drop(Place::Level(2), &[55]));
}

/// A fake table has 100 bytes.
#[test]
fn tables_end_where_they_are_full_and_where_the_level_behind_begins_one() {
    let behind = Run::part(vec![fake(1, 10, 19), fake(2, 30, 39), fake(3, 40, 59), fake(4, 100, 120)]);
    let cut = |behind: Option<&Run<Fake>>, full, keys: &mut dyn Iterator<Item = u8>| {
        let (mut cuts, mut bytes, mut ends) = (Cuts::new(full, behind), 0, Vec::new());
        for key in keys {
            if cuts.end_before(&[key], bytes) {
                ends.push(key);
                bytes = 0;
            }
            bytes += 10;
        }
        ends
    };
    assert_eq!(cut(None, 50, &mut (0..=20)), [5, 10, 15, 20]);
    // At 30 it has half of it; at 10 and at 40 less.
    assert_eq!(cut(Some(&behind), 220, &mut (9..=60)), [30, 52]);
    assert_eq!(cut(Some(&behind), 160, &mut (20..=60)), [30, 40, 56]);
    // 30 tables behind one are more than it should touch, 16 are not.
    let many = Run::part((0..30).map(|number| fake(number.into(), 4 * number, 4 * number + 1)).collect());
    assert_eq!(cut(Some(&many), 200, &mut [1, 2, 60, 119].into_iter()), [119]);
}

#[test]
fn tables_end_before_guards_however_small_they_are() {
    let mut cuts = Cuts::<Fake>::new(50, None).guarded([0, 3, 4, 16, 18, 90].map(|guard| vec![guard]).to_vec());
    let (mut bytes, mut ends) = (0, Vec::new());
    for key in (0..17).chain([20]) {
        if cuts.end_before(&[key], bytes) {
            ends.push(key);
            bytes = 0;
        }
        bytes += 10;
    }
    assert_eq!(ends, [3, 4, 9, 14, 16, 20], "the first guard ends nothing, and one between two keys does");
}

/// What the last level has shrunk to makes the one above it needless, of which there is still as much as there was.
#[test]
fn a_level_that_is_not_needed_any_more_does_not_keep_level_0_waiting() {
    let [upper, last, runs] = [1, 21, 41].map(|first| {
        (0..8).map(|number| fake(first + number, number as u8 * 4, number as u8 * 4 + 1)).collect::<Vec<_>>()
    });
    let mut structure = Structure::default();
    let comes = |place, tables: &[Arc<Fake>]| tables.iter().map(|table| (place, table.file())).collect::<Vec<_>>();
    let levels = [comes(Place::Level(2), &upper), comes(Place::Level(1), &last)].concat();
    structure.apply(&Change { comes: levels, ..Change::default() }).unwrap();
    for (ordinal, run) in (0..).zip(&runs) {
        structure.apply(&Change { comes: vec![(Place::Run(ordinal), run.file())], ..Change::default() }).unwrap();
    }
    let version = Version::empty().after(&structure, &[upper.clone(), last, runs].concat()).unwrap();
    let level_0 = upper.iter().map(|table| table.bytes()).sum();
    assert_eq!(version.target(2, level_0), 0);
    let piece = version.pick(level_0, Small::NONE, &mut Rounds::default()).unwrap();
    assert!(piece.inputs[0].0.is_run(), "{:?}", piece.inputs[0].0);
}

/// A level above the last one, which is too large.
fn two_levels(upper: &[Arc<Fake>], last: &[Arc<Fake>]) -> Version<Fake> {
    let mut structure = Structure::default();
    let comes = |place, tables: &[Arc<Fake>]| tables.iter().map(|table| (place, table.file())).collect::<Vec<_>>();
    let comes = [comes(Place::Level(2), upper), comes(Place::Level(1), last)].concat();
    structure.apply(&Change { comes, ..Change::default() }).unwrap();
    Version::empty().after(&structure, &[upper, last].concat()).unwrap()
}

/// The number of the table of the upper level that is taken.
fn taken(version: &Version<Fake>, rounds: &mut Rounds) -> u32 {
    let piece = version.pick(NO_BYTES, Small::NONE, rounds).expect("the level is too large");
    piece.inputs[0].1.tables()[0].file().number
}

#[test]
fn what_is_read_in_vain_goes_first_and_what_is_deleted_before_what_is_not() {
    let last = [fake(11, 10, 19), fake(12, 30, 39), fake(13, 50, 59)];
    let upper = |second: Arc<Fake>, third: Arc<Fake>| two_levels(&[fake(1, 10, 19), second, third], &last);
    let (second, third) = (|| fake(2, 30, 39), || fake(3, 50, 59));
    let taken = |version: Version<Fake>| taken(&version, &mut Rounds::default());
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
    let (version, mut rounds) = (two_levels(&upper, &last), Rounds::default());
    for _ in 0..3 {
        let all: BTreeSet<_> = (0..16 * 8).map(|_| taken(&version, &mut rounds)).collect();
        assert_eq!(all.len(), 8, "{all:?}");
    }
    let cheapest = (0..15).map(|_| taken(&version, &mut rounds)).collect::<BTreeSet<_>>();
    assert_eq!(cheapest, BTreeSet::from([8]));
}

#[test]
fn tables_with_many_tombstones_are_due_and_what_they_hide_tells_when_nobody_is_there() {
    let at = |places: &[(Place, Arc<Fake>)]| {
        let mut structure = Structure::default();
        let comes = places.iter().map(|(place, table)| (*place, table.file())).collect();
        structure.apply(&Change { comes, ..Change::default() }).unwrap();
        let tables: Vec<_> = places.iter().map(|(_, table)| table.clone()).collect();
        Version::empty().after(&structure, &tables).unwrap()
    };
    // Ten bytes a record.
    let table = |number, first, last, bytes, tombstones| fake(number, first, last).of_bytes(bytes).with(tombstones, 0);
    let (upper, last) = (Place::Level(2), Place::Level(1));
    let dense = at(&[
        (upper, table(1, 0, 9, 40_000, 2100)),
        (upper, table(2, 20, 29, 40_000, 1900)),
        (last, table(3, 0, 99, 60_000, 0)),
    ]);
    let piece = dense.piece_of_tombstones().unwrap();
    assert_eq!(piece.files(), [1, 3].map(|number| File { number, birth: 7 }));
    let dear = at(&[(upper, table(1, 0, 9, 40_000, 2100)), (last, table(3, 0, 99, 1 << 20, 0))]);
    assert!(dear.piece_of_tombstones().is_none(), "it moves too much");
    let sparse = at(&[(upper, table(2, 20, 29, 40_000, 1900)), (last, table(3, 0, 99, 1 << 20, 90_000))]);
    assert!(sparse.piece_of_tombstones().is_none(), "nor in the last level");
    let large = 100 << 20;
    let hides = |tombstones| at(&[(upper, table(1, 0, 9, 80 << 20, tombstones)), (last, table(3, 0, 99, large, 0))]);
    assert!(
        !hides(3 << 20).is_littered(0, 8 << 20)
            && hides(7 << 20).is_littered(0, 8 << 20)
            && hides(3 << 20).is_littered(5 << 20, 8 << 20)
    );
    assert!(!at(&[(last, table(3, 0, 99, large, 9 << 20))]).is_littered(0, 8 << 20));
    let most = at(&[
        (upper, table(1, 0, 9, 40_000, 10)),
        (upper, table(2, 20, 29, 40_000, 20)),
        (last, table(3, 0, 99, 1 << 20, 0)),
    ]);
    assert_eq!(most.piece_of_litter(1 << 20).unwrap().files()[0].number, 2);
}
