//! Versions, compared with sets of ranges over random edits.

use std::{collections::BTreeSet, slice};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    manifest::{PagedRangeEdit, RangeEditKind, VersionEdit},
    version::*,
};

/// A table without a file. Keys have one byte.
#[derive(Debug)]
pub(crate) struct Fake {
    file: FileRef,
    range: [u8; 2],
    bytes: u64,
    tombstones: u64,
    false_positive_reads: u64,
}

impl Fake {
    /// The same table with this many bytes, and a record for ten of them.
    pub(crate) fn of_bytes(self: Arc<Self>, bytes: u64) -> Arc<Fake> {
        let Fake { file, range, tombstones, false_positive_reads, .. } = *self;
        Arc::new(Fake { file, range, bytes, tombstones, false_positive_reads })
    }

    /// The same table with these numbers of tombstones and false-positive reads.
    pub(crate) fn with(self: Arc<Self>, tombstones: u64, false_positive_reads: u64) -> Arc<Fake> {
        let Fake { file, range, bytes, .. } = *self;
        Arc::new(Fake { file, range, bytes, tombstones, false_positive_reads })
    }
}

impl TableMeta for Fake {
    fn file(&self) -> FileRef {
        self.file
    }

    fn first(&self) -> &[u8] {
        &self.range[..1]
    }

    fn last(&self) -> &[u8] {
        &self.range[1..]
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn records(&self) -> (u64, u64) {
        (self.bytes / 10, self.tombstones)
    }

    fn fraction_in(&self, (lower, upper): (&[u8], &[u8])) -> f64 {
        let [first, last] = self.range;
        let keys = (first..=last).filter(|key| lower <= &[*key][..] && &[*key][..] < upper);
        keys.count() as f64 / (f64::from(last - first) + 1.0)
    }

    fn false_positive_reads(&self) -> u64 {
        self.false_positive_reads
    }
}

pub(crate) fn fake(number: u32, first: u8, last: u8) -> Arc<Fake> {
    Arc::new(Fake {
        file: FileRef { number, birth: 7 },
        range: [first, last],
        bytes: 100,
        tombstones: 0,
        false_positive_reads: 0,
    })
}

/// The manifest and the version of a keyspace.
struct Fixture {
    manifest: LevelManifest,
    version: Version<Fake>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { manifest: LevelManifest::default(), version: Version::empty() }
    }

    /// Applies an edit, unless it is invalid.
    fn make(&mut self, deleted: &[Arc<Fake>], added: &[(RunId, Arc<Fake>)]) -> Result<(), InvalidEdit> {
        let change = VersionEdit {
            deleted: deleted.iter().map(|table| table.file).collect(),
            added: added.iter().map(|(run_id, table)| (*run_id, table.file)).collect(),
            ..VersionEdit::default()
        };
        let mut manifest = self.manifest.clone();
        manifest.apply(&change)?;
        let fresh: Vec<_> = added.iter().map(|(_, table)| table.clone()).collect();
        self.version = self.version.after(&manifest, &fresh)?;
        self.manifest = manifest;
        Ok(())
    }

    fn paged_range(&mut self, lower: u8, upper: u8, kind: RangeEditKind) {
        let edit = PagedRangeEdit { lower: vec![lower], upper: vec![upper], kind };
        self.manifest.apply(&VersionEdit { paged_ranges: vec![edit], ..VersionEdit::default() }).unwrap();
        self.version = self.version.after(&self.manifest, &[]).unwrap();
    }

    fn flush(&mut self, tables: &[Arc<Fake>]) -> Result<(), InvalidEdit> {
        let run = RunId::L0(self.manifest.next_ordinal());
        self.make(&[], &tables.iter().map(|table| (run, table.clone())).collect::<Vec<_>>())
    }

    /// The numbers of the tables that a search for a key reads, in order.
    fn looks_at(&self, key: u8) -> Vec<u32> {
        self.version.runs().filter_map(|(_, run)| run.table_for(&[key])).map(|table| table.file.number).collect()
    }
}

#[test]
fn a_key_is_looked_for_from_young_to_old_and_once_in_a_run() {
    let mut fixture = Fixture::new();
    fixture.flush(&[fake(1, 0, 9), fake(2, 10, 30)]).unwrap();
    fixture.flush(&[fake(3, 8, 12)]).unwrap();
    let (level, deep) = (RunId::at_depth(2), RunId::LAST);
    fixture.make(&[], &[(deep, fake(4, 40, 50)), (deep, fake(5, 0, 20)), (level, fake(6, 12, 12))]).unwrap();
    let wanted: [(u8, &[u32]); 7] =
        [(0, &[1, 5]), (9, &[3, 1, 5]), (10, &[3, 2, 5]), (12, &[3, 2, 6, 5]), (31, &[]), (45, &[4]), (51, &[])];
    wanted.iter().for_each(|(key, tables)| assert_eq!(fixture.looks_at(*key), *tables, "{key}"));
}

#[test]
fn a_run_gives_the_tables_of_a_range() {
    let run = Run::of(vec![fake(3, 40, 50), fake(1, 0, 9), fake(2, 10, 30)]).unwrap();
    let of = |first: u8, last: u8| -> Vec<u32> {
        run.overlapping(&(&[first][..]..=&[last][..])).iter().map(|table| table.file.number).collect()
    };
    assert_eq!(
        [of(0, 255), of(9, 10), of(31, 39), of(50, 60), of(51, 60)],
        [vec![1, 2, 3], vec![1, 2], vec![], vec![3], vec![]]
    );
    assert_eq!(of(30, 9), [2; 0], "an empty range has none");
}

#[test]
fn ranges_of_a_run_do_not_touch() {
    let mut fixture = Fixture::new();
    fixture.flush(&[fake(1, 0, 9)]).unwrap();
    let run = RunId::L0(0);
    for wrong in [fake(2, 9, 10), fake(2, 3, 4), fake(2, 0, 30)] {
        assert!(fixture.make(&[], &[(run, wrong)]).is_err());
    }
    assert_eq!(fixture.looks_at(9), [1], "what does not fit changes nothing");
    fixture.make(&[], &[(run, fake(2, 10, 10))]).unwrap();
}

#[test]
fn what_does_not_change_is_shared() {
    let mut fixture = Fixture::new();
    let first = fake(1, 0, 9);
    fixture.flush(slice::from_ref(&first)).unwrap();
    fixture.flush(&[fake(2, 0, 9)]).unwrap();
    let before = fixture.version.run(RunId::L0(0)).unwrap().clone();
    fixture.flush(&[fake(3, 0, 9)]).unwrap();
    let after = fixture.version.run(RunId::L0(0)).unwrap();
    assert!(std::ptr::eq(before.tables(), after.tables()));
    fixture.make(slice::from_ref(&first), &[]).unwrap();
    drop(before);
    assert_eq!(Arc::strong_count(&first), 1, "no version has it any more");
}

/// Random flushes, compactions and moves.
#[test]
fn a_version_has_what_the_structure_names_whatever_came_before() {
    for seed in 0..40 {
        let (mut random, mut fixture, mut number) = (SmallRng::seed_from_u64(seed), Fixture::new(), 0);
        for _ in 0..120 {
            let mut fresh = |random: &mut SmallRng| {
                number += 1;
                let first = random.random_range(0..250);
                fake(number, first, first + random.random_range(0..5))
            };
            if random.random_bool(0.5) {
                let table = fresh(&mut random);
                // There may be as many runs as the limit allows.
                let _ = fixture.flush(&[table]);
                continue;
            }
            let tables: Vec<_> = fixture.version.tables().cloned().collect();
            let deleted: Vec<_> = tables.into_iter().filter(|_| random.random_bool(0.2)).collect();
            let level = RunId::at_depth(random.random_range(1..4));
            let added: Vec<_> = deleted
                .iter()
                .map(|table| (level, if random.random() { table.clone() } else { fresh(&mut random) }))
                .collect();
            // Ranges may overlap, or a table would move up.
            let _ = fixture.make(&deleted, &added);
            check(&fixture);
        }
        assert!(fixture.version.tables().count() > 10, "seed {seed}");
    }
}

#[test]
fn what_is_at_a_floor_or_older_does_not_count_in_its_range() {
    let mut fixture = Fixture::new();
    fixture.flush(&[fake(1, 0, 200)]).unwrap();
    fixture.flush(&[fake(2, 0, 200)]).unwrap();
    fixture.make(&[], &[(RunId::at_depth(2), fake(3, 0, 200)), (RunId::LAST, fake(4, 0, 200))]).unwrap();
    fixture.paged_range(10, 20, RangeEditKind::Add(RunId::L0(0)));
    fixture.paged_range(20, 30, RangeEditKind::Add(RunId::at_depth(2)));
    fixture.paged_range(30, 40, RangeEditKind::Add(RunId::LAST));
    fixture.paged_range(40, 50, RangeEditKind::Add(RunId::L0(1)));
    fixture.paged_range(45, 50, RangeEditKind::Reactivate);
    let all = [2, 1, 3, 4];
    let wanted = [(9, 4), (10, 1), (19, 1), (20, 2), (30, 3), (39, 3), (40, 0), (45, 4), (49, 4), (50, 4)];
    for (key, count) in wanted {
        let (tables, pages) = visible(&fixture, key);
        assert_eq!((&tables[..], pages), (&all[..count], (10..50).contains(&key)), "{key}");
    }
    fixture.flush(&[fake(5, 0, 200)]).unwrap();
    assert_eq!(visible(&fixture, 40), (vec![5], true), "what comes is above the floor");
    let fragments: Vec<_> = fixture.version.fragments_within((&[5], &[25])).collect();
    let cuts: Vec<_> =
        fragments.iter().map(|(visibility, (from, to))| (from[0], to[0], visibility.has_pages)).collect();
    assert_eq!(cuts, [(5, 10, false), (10, 20, true), (20, 25, true)]);
}

/// The tables of the sorted runs of a key, from young to old, and whether the pages come last.
fn visible(fixture: &Fixture, key: u8) -> (Vec<u32>, bool) {
    let runs: Vec<_> = fixture.version.sorted_runs(fixture.version.visibility_at(&[key])).collect();
    let has_pages = matches!(runs.last(), Some(SortedRun::Pages));
    let tables: Vec<_> = runs.into_iter().filter_map(SortedRun::tables).collect();
    (tables.iter().map(|(_, run)| run.tables()[0].file.number).collect(), has_pages)
}

fn check(fixture: &Fixture) {
    let places: Vec<_> =
        fixture.version.runs().map(|(run_id, run)| (run_id, run.files().collect::<BTreeSet<_>>())).collect();
    let named: Vec<_> = fixture.manifest.runs().map(|(run_id, files)| (run_id, files.clone())).collect();
    assert_eq!(places, named);
    for key in 0..=255 {
        for (run_id, run) in fixture.version.runs() {
            let having = run.tables().iter().filter(|table| table.range[0] <= key && key <= table.range[1]);
            let having: Vec<_> = having.map(|table| table.file).collect();
            assert!(having.len() <= 1, "{run_id:?}");
            assert_eq!(run.table_for(&[key]).map(|table| table.file), having.first().copied());
        }
    }
    let anew =
        Version::empty().after(&fixture.manifest, &fixture.version.tables().cloned().collect::<Vec<_>>()).unwrap();
    assert!(
        anew.runs()
            .map(|(run_id, run)| (run_id, run.files().collect::<Vec<_>>()))
            .eq(fixture.version.runs().map(|(run_id, run)| (run_id, run.files().collect::<Vec<_>>())))
    );
}
