//! Versions against sets of ranges, over random changes.

use std::{collections::BTreeSet, slice};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::lsm::structure::{Become, Change, CoverEdit};

/// A table of which nothing is on a disk. Keys have one byte.
#[derive(Debug)]
pub(in crate::lsm) struct Fake {
    file: File,
    range: [u8; 2],
    bytes: u64,
    tombstones: u64,
    reads_in_vain: u64,
}

impl Fake {
    /// The same with so many bytes, and a record for ten of them.
    pub(in crate::lsm) fn of_bytes(self: Arc<Self>, bytes: u64) -> Arc<Fake> {
        let Fake { file, range, tombstones, reads_in_vain, .. } = *self;
        Arc::new(Fake { file, range, bytes, tombstones, reads_in_vain })
    }

    /// The same with so many tombstones, and reads in vain.
    pub(in crate::lsm) fn with(self: Arc<Self>, tombstones: u64, reads_in_vain: u64) -> Arc<Fake> {
        let Fake { file, range, bytes, .. } = *self;
        Arc::new(Fake { file, range, bytes, tombstones, reads_in_vain })
    }
}

impl Ranged for Fake {
    fn file(&self) -> File {
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

    fn share(&self, (lower, upper): (&[u8], &[u8])) -> f64 {
        let [first, last] = self.range;
        let keys = (first..=last).filter(|key| lower <= &[*key][..] && &[*key][..] < upper);
        keys.count() as f64 / (f64::from(last - first) + 1.0)
    }

    fn reads_in_vain(&self) -> u64 {
        self.reads_in_vain
    }
}

pub(in crate::lsm) fn fake(number: u32, first: u8, last: u8) -> Arc<Fake> {
    Arc::new(Fake {
        file: File { number, birth: 7 },
        range: [first, last],
        bytes: 100,
        tombstones: 0,
        reads_in_vain: 0,
    })
}

/// The structure and the version of a keyspace.
struct World {
    structure: Structure,
    version: Version<Fake>,
}

impl World {
    fn new() -> World {
        World { structure: Structure::default(), version: Version::empty() }
    }

    /// Makes a change, unless it does not fit.
    fn make(&mut self, goes: &[Arc<Fake>], comes: &[(Place, Arc<Fake>)]) -> Result<(), Misfit> {
        let change = Change {
            goes: goes.iter().map(|table| table.file).collect(),
            comes: comes.iter().map(|(place, table)| (*place, table.file)).collect(),
            ..Change::default()
        };
        let mut structure = self.structure.clone();
        structure.apply(&change)?;
        let fresh: Vec<_> = comes.iter().map(|(_, table)| table.clone()).collect();
        self.version = self.version.after(&structure, &fresh)?;
        self.structure = structure;
        Ok(())
    }

    fn cover(&mut self, lower: u8, upper: u8, becomes: Become) {
        let edit = CoverEdit { lower: vec![lower], upper: vec![upper], becomes };
        self.structure.apply(&Change { covers: vec![edit], ..Change::default() }).unwrap();
        self.version = self.version.after(&self.structure, &[]).unwrap();
    }

    fn flush(&mut self, tables: &[Arc<Fake>]) -> Result<(), Misfit> {
        let run = Place::Run(self.structure.next_ordinal());
        self.make(&[], &tables.iter().map(|table| (run, table.clone())).collect::<Vec<_>>())
    }

    /// The numbers of the tables that a search for a key looks at, in its order.
    fn looks_at(&self, key: u8) -> Vec<u32> {
        self.version.runs().filter_map(|(_, run)| run.covering(&[key])).map(|table| table.file.number).collect()
    }
}

#[test]
fn a_key_is_looked_for_from_young_to_old_and_once_in_a_run() {
    let mut world = World::new();
    world.flush(&[fake(1, 0, 9), fake(2, 10, 30)]).unwrap();
    world.flush(&[fake(3, 8, 12)]).unwrap();
    let (level, deep) = (Place::Level(2), Place::Level(1));
    world.make(&[], &[(deep, fake(4, 40, 50)), (deep, fake(5, 0, 20)), (level, fake(6, 12, 12))]).unwrap();
    let wanted: [(u8, &[u32]); 7] =
        [(0, &[1, 5]), (9, &[3, 1, 5]), (10, &[3, 2, 5]), (12, &[3, 2, 6, 5]), (31, &[]), (45, &[4]), (51, &[])];
    wanted.iter().for_each(|(key, tables)| assert_eq!(world.looks_at(*key), *tables, "{key}"));
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
    let mut world = World::new();
    world.flush(&[fake(1, 0, 9)]).unwrap();
    let run = Place::Run(0);
    for wrong in [fake(2, 9, 10), fake(2, 3, 4), fake(2, 0, 30)] {
        assert!(world.make(&[], &[(run, wrong)]).is_err());
    }
    assert_eq!(world.looks_at(9), [1], "what does not fit changes nothing");
    world.make(&[], &[(run, fake(2, 10, 10))]).unwrap();
}

#[test]
fn what_does_not_change_is_shared() {
    let mut world = World::new();
    let first = fake(1, 0, 9);
    world.flush(slice::from_ref(&first)).unwrap();
    world.flush(&[fake(2, 0, 9)]).unwrap();
    let before = world.version.run(Place::Run(0)).unwrap().clone();
    world.flush(&[fake(3, 0, 9)]).unwrap();
    let after = world.version.run(Place::Run(0)).unwrap();
    assert!(std::ptr::eq(before.tables(), after.tables()));
    world.make(slice::from_ref(&first), &[]).unwrap();
    drop(before);
    assert_eq!(Arc::strong_count(&first), 1, "no version has it any more");
}

/// Random flushes, compactions and moves.
#[test]
fn a_version_has_what_the_structure_names_whatever_came_before() {
    for seed in 0..40 {
        let (mut random, mut world, mut number) = (SmallRng::seed_from_u64(seed), World::new(), 0);
        for _ in 0..120 {
            let mut fresh = |random: &mut SmallRng| {
                number += 1;
                let first = random.random_range(0..250);
                fake(number, first, first + random.random_range(0..5))
            };
            if random.random_bool(0.5) {
                let table = fresh(&mut random);
                // There may be as many runs as can be.
                let _ = world.flush(&[table]);
                continue;
            }
            let tables: Vec<_> = world.version.tables().cloned().collect();
            let goes: Vec<_> = tables.into_iter().filter(|_| random.random_bool(0.2)).collect();
            let level = Place::Level(random.random_range(1..4));
            let comes: Vec<_> = goes
                .iter()
                .map(|table| (level, if random.random() { table.clone() } else { fresh(&mut random) }))
                .collect();
            // Ranges may overlap, or something would move up.
            let _ = world.make(&goes, &comes);
            check(&world);
        }
        assert!(world.version.tables().count() > 10, "seed {seed}");
    }
}

#[test]
fn what_is_at_a_floor_or_older_does_not_count_in_its_cover() {
    let mut world = World::new();
    world.flush(&[fake(1, 0, 200)]).unwrap();
    world.flush(&[fake(2, 0, 200)]).unwrap();
    world.make(&[], &[(Place::Level(2), fake(3, 0, 200)), (Place::Level(1), fake(4, 0, 200))]).unwrap();
    world.cover(10, 20, Become::Covered(Place::Run(0)));
    world.cover(20, 30, Become::Covered(Place::Level(2)));
    world.cover(30, 40, Become::Covered(Place::Level(1)));
    world.cover(40, 50, Become::Covered(Place::Run(1)));
    world.cover(45, 50, Become::Open);
    let all = [2, 1, 3, 4];
    let wanted = [(9, 4), (10, 1), (19, 1), (20, 2), (30, 3), (39, 3), (40, 0), (45, 4), (49, 4), (50, 4)];
    for (key, count) in wanted {
        let counting: Vec<_> = world.version.counting(&[key]).map(|run| run.tables()[0].file.number).collect();
        assert_eq!(counting, all[..count], "{key}");
    }
    world.flush(&[fake(5, 0, 200)]).unwrap();
    assert_eq!(world.version.counting(&[40]).count(), 1, "what comes is above the floor");
}

fn check(world: &World) {
    let places: Vec<_> =
        world.version.runs().map(|(place, run)| (place, run.files().collect::<BTreeSet<_>>())).collect();
    let named: Vec<_> = world.structure.places().map(|(place, files)| (place, files.clone())).collect();
    assert_eq!(places, named);
    for key in 0..=255 {
        for (place, run) in world.version.runs() {
            let having = run.tables().iter().filter(|table| table.range[0] <= key && key <= table.range[1]);
            let having: Vec<_> = having.map(|table| table.file).collect();
            assert!(having.len() <= 1, "{place:?}");
            assert_eq!(run.covering(&[key]).map(|table| table.file), having.first().copied());
        }
    }
    let anew = Version::empty().after(&world.structure, &world.version.tables().cloned().collect::<Vec<_>>()).unwrap();
    assert!(
        anew.runs()
            .map(|(place, run)| (place, run.files().collect::<Vec<_>>()))
            .eq(world.version.runs().map(|(place, run)| (place, run.files().collect::<Vec<_>>())))
    );
}
