//! Pieces, cuts and tombstones over tables of which nothing is on a disk.

use std::{collections::BTreeSet, sync::Arc};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::lsm::{
    compact::{cuts::Cuts, descent::Descent, drops::Drops, pick::Piece, rounds::Rounds},
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

/// What is older than something that is taken, and could have a key of it, is taken too, or lies below the level where it goes. Nothing stays in that level
/// between tables that are taken.
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

/// Trap 12: what brings a stretch further down does so with everything older that overlaps, has some of the stretch, and ends.
#[test]
fn trap_12_a_piece_of_a_stretch_is_closed() {
    let mut random = SmallRng::seed_from_u64(7);
    let (mut tops, mut of_several) = (BTreeSet::new(), 0);
    for _ in 0..2000 {
        let (version, lower, wide) = (version(&mut random), random.random::<u8>(), random.random_range(1..100u8));
        let stretch = (&[lower][..], &[lower.saturating_add(wide)][..]);
        let above = |(place, run): (Place, &Run<Fake>)| place != Place::Level(1) && !run.within(stretch).is_empty();
        let most = if random.random() { u64::MAX } else { random.random_range(0..5000) };
        let Some(piece) = Descent::of(&version, stretch, SIZES).next_piece(most) else { continue };
        assert!(piece.bytes() <= most);
        let several = !piece.has_runs() && piece.inputs[0].1.tables().len() > 1;
        assert!(!several || piece.bytes() <= 4 * SIZES.part);
        of_several += usize::from(several);
        assert!(version.runs().any(above));
        assert_closed(&version, &piece);
        let (place, upper) = &piece.inputs[0];
        assert!(!upper.within(stretch).is_empty() || place.is_run(), "{place:?}");
        tops.insert((place.is_run(), piece.target));
    }
    assert!(of_several > 50, "{of_several}");
    // Level 0 goes into the last level where there is no other.
    assert_eq!(tops, BTreeSet::from([(true, 1), (true, 2), (false, 1)].map(|(is_run, depth)| (is_run, Place::Level(depth)))));
}

/// Tables of 100 bytes: those of level 2 that go down at once from a stretch, and those of the last level that are read for that, by their numbers.
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
    let numbers = |run: Option<&(Place, Run<Fake>)>| run.map_or(vec![], |(_, run)| run.files().map(|file| file.number).collect());
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

/// Trap 12: of level 0 with a table goes everything older that overlaps it.
#[test]
fn trap_12_a_piece_is_closed() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut targets = BTreeSet::new();
    for _ in 0..2000 {
        let version = version(&mut random);
        let piece = version.piece_of_level_0(u64::MAX).expect("there are runs");
        assert_closed(&version, &piece);
        let next = version.pick(NO_BYTES, NO_BYTES, &mut Rounds::default()).expect("level 0 has runs enough");
        assert_closed(&version, &next);
        targets.insert(next.target);
        assert!(version.is_due(NO_BYTES, NO_BYTES));
    }
    assert!(targets.len() > 1, "{targets:?}");
}

/// The places of the youngest runs that become one, from young to old, and where it goes, of runs of so many tables of 100 bytes, the oldest first.
fn young(runs: &[u64]) -> Option<(Vec<Place>, Place)> {
    let (mut structure, mut tables) = (Structure::default(), Vec::new());
    for (ordinal, count) in (0..).zip(runs) {
        let row: Vec<_> = (0..*count).map(|table| fake((100 * ordinal + table) as u32, table as u8, table as u8)).collect();
        let comes = row.iter().map(|table| (Place::Run(ordinal), table.file())).collect();
        structure.apply(&Change { comes, ..Change::default() }).unwrap();
        tables.extend(row);
    }
    let piece = Version::empty().after(&structure, &tables).unwrap().piece_of_young_runs(1000)?;
    assert_eq!(piece.inputs.iter().map(|(_, run)| run.tables().len() as u64).sum::<u64>() * 100, piece.bytes());
    Some((piece.inputs.iter().map(|(place, _)| *place).collect(), piece.target))
}

#[test]
fn small_runs_become_one_where_the_youngest_is() {
    let runs =
        |ordinals: &[u64], target| Some((ordinals.iter().map(|ordinal| Place::Run(*ordinal)).collect(), Place::Run(target)));
    assert_eq!(young(&[1, 1, 1]), None, "few");
    assert_eq!(young(&[1, 1, 1, 1]), runs(&[3, 2, 1, 0], 3));
    assert_eq!(young(&[5, 5, 1, 2, 1, 1]), runs(&[5, 4, 3, 2, 1], 5), "with the sixth there would be more than a thousand bytes");
    assert_eq!(young(&[6, 2, 1, 1, 1]), runs(&[4, 3, 2, 1], 4), "the oldest is larger than all others");
    assert_eq!(young(&[1, 1, 9, 1, 1]), None, "one lies between that is larger than those behind it");
    assert_eq!(young(&[3, 3, 3, 3]), None, "they are too large together");
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
        let youngest = version.runs().position(|(_, run)| run.files().any(|file| files.contains(&file))).unwrap();
        let mut drops = Drops::of(&version, &files);
        for key in 0..=u8::MAX {
            let covers = |table: &Arc<Fake>| table.first() <= &[key][..] && &[key][..] <= table.last();
            let is_below = version.runs().skip(youngest).flat_map(|(_, run)| run.tables());
            let expected = !is_below.filter(|table| !files.contains(&table.file())).any(covers);
            assert_eq!(drops.may_drop(&[key]), expected);
            if expected { dropped += 1 } else { kept += 1 }
        }
    }
    assert!(kept > 1000 && dropped > 1000);
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

/// What the last level has shrunk to makes the one above it needless, of which there is still as much as there was.
#[test]
fn a_level_that_is_not_needed_any_more_does_not_keep_level_0_waiting() {
    let [upper, last, runs] = [1, 21, 41]
        .map(|first| (0..8).map(|number| fake(first + number, number as u8 * 4, number as u8 * 4 + 1)).collect::<Vec<_>>());
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
    let piece = version.pick(level_0, NO_BYTES, &mut Rounds::default()).unwrap();
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
    let piece = version.pick(NO_BYTES, NO_BYTES, rounds).expect("the level is too large");
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
