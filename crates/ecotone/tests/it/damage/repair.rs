//! Repair of databases that are damaged in every place: nothing is lost but what is told, and nothing is wrong but what is called doubtful.

use std::sync::Arc;

use ecotone::{
    Durability, Error, KeyRange, KeyspaceOptions, Repair, RepairReport, RepairedKeyspace, Result,
    internal::{
        Parts,
        engines::tree::TreeFamily,
        substrate::{
            limits::PAGE,
            storage::{FileId, Storage},
        },
    },
};
use ecotone_testkit::{
    model::{Key, State},
    sim::{Crash, SimClock, SimStorage},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::image::{self, Image, NAMES};

const BUDGET: usize = 16 << 20;

/// A repaired database: what was told, and what it holds, with the keyspaces by their old numbers.
struct Repaired {
    report: RepairReport,
    content: State,
}

fn parts(disk: &SimStorage) -> Parts {
    Parts {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(3)),
        workers: 0,
        families: vec![Arc::new(TreeFamily::default())],
    }
}

/// Repairs what is on `disk`, which must not change by it.
fn attempt(disk: &SimStorage) -> Result<Repaired> {
    let before = disk.files();
    let new = SimStorage::new(5);
    let repair = Repair::new("damaged", "repaired").memory_budget(BUDGET);
    let report = repair.run_parts(Arc::new(disk.clone()), parts(&new), &mut |_| {})?;
    assert!(disk.files() == before, "the damaged database was changed");
    let database = image::open(&new, 9)?;
    assert!(database.verify()?.iter().all(|(_, check)| check.problems.is_empty()), "the repaired database is sound");
    let mut content = State::new();
    for keyspace in &report.keyspaces {
        for record in database.open_keyspace(&keyspace.name)?.iter() {
            let (key, value) = record?;
            content.insert((keyspace.id, key), value);
        }
    }
    assert!(!new.files().keys().any(|file| matches!(file, FileId::Scratch(_))), "scratch files are removed");
    image::abandon(&new, database);
    Ok(Repaired { report, content })
}

fn repair(disk: &SimStorage) -> Repaired {
    attempt(disk).expect("damage is no error")
}

fn within(ranges: &[KeyRange], key: &[u8]) -> bool {
    ranges.iter().any(|(start, end)| start.as_slice() <= key && end.as_ref().is_none_or(|end| key < end.as_slice()))
}

impl Repaired {
    fn of(&self, id: u32) -> &RepairedKeyspace {
        self.report.keyspaces.iter().find(|keyspace| keyspace.id == id).expect("a keyspace")
    }

    /// Whether a key may be otherwise than it was.
    fn is_hurt(&self, (id, key): &Key) -> bool {
        let keyspace = self.of(*id);
        within(&keyspace.missing.listed, key) || within(&keyspace.doubtful.listed, key)
    }

    /// Asserts that all is as expected but for what is told to be hurt. Gives how much is otherwise.
    fn fits(&self, expected: &State, place: &str) -> usize {
        let wrong: Vec<_> =
            expected.keys().chain(self.content.keys()).filter(|key| expected.get(*key) != self.content.get(*key)).collect();
        if let Some((id, key)) = wrong.iter().find(|key| !self.is_hurt(key)) {
            let key = String::from_utf8_lossy(key);
            panic!("{place}: {key:?} of keyspace {id} is wrong and was not told, in {:#?}", self.report);
        }
        wrong.len()
    }
}

fn image() -> Image {
    Image::of(1, 390)
}

/// Pages of a file by the byte that tells their kind.
fn pages_of_kind(bytes: &[u8], kinds: &[u8]) -> Vec<usize> {
    let kind = |page: usize| bytes[page * PAGE + 5];
    (1..bytes.len() / PAGE).filter(|page| kinds.contains(&kind(*page))).collect()
}

fn remove_manifests(disk: &SimStorage) {
    for file in disk.files().into_keys().filter(|file| matches!(file, FileId::Manifest(_))) {
        disk.truncate(file, 40);
    }
}

#[test]
fn an_intact_database_comes_back_whole() {
    let image = image();
    let repaired = repair(&image.copy());
    assert_eq!(repaired.fits(image.now(), "intact"), 0);
    assert!(repaired.report.is_complete() && repaired.report.problems.is_empty(), "{:#?}", repaired.report);
    let names: Vec<_> = repaired.report.keyspaces.iter().map(|keyspace| (keyspace.id, keyspace.name.as_str())).collect();
    assert_eq!(names, NAMES);
    assert!(repaired.report.keyspaces.iter().all(|keyspace| keyspace.indexed && keyspace.records > 0));
}

#[test]
fn without_a_manifest_only_the_names_are_lost() {
    let image = image();
    let disk = image.copy();
    remove_manifests(&disk);
    let repaired = repair(&disk);
    assert_eq!(repaired.fits(image.now(), "no manifest"), 0);
    assert!(repaired.report.is_complete() && !repaired.report.problems.is_empty(), "{:#?}", repaired.report);
    assert_eq!(repaired.of(1).name, "keyspace-1");
    assert!(!repaired.of(1).indexed);
}

#[test]
fn without_its_index_a_keyspace_comes_back_whole() {
    let image = image();
    let mut tried = 0;
    for (file, bytes) in image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Pages(_))) {
        let index = pages_of_kind(&bytes, &[3, 4]);
        let disk = image.copy();
        index.iter().for_each(|page| disk.flip_bit(file, (page * PAGE + 300) as u64, 2));
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(image.now(), &format!("index of {file}")), 0);
        assert!(!repaired.of(file.keyspace().unwrap()).indexed);
        tried += index.len();
    }
    assert!(tried >= 2, "every keyspace has an index");
}

/// Damages every data page in turn. Gives how often something was lost, and how often it was not known.
fn damage_each_page(manifest: bool) -> (usize, usize) {
    let image = image();
    let (mut lost, mut damaged) = (0, 0);
    for (file, bytes) in image.files().into_iter().filter(|(file, _)| matches!(file, FileId::Pages(_))) {
        for page in pages_of_kind(&bytes, &[1, 2]) {
            let disk = image.copy();
            if !manifest {
                remove_manifests(&disk);
            }
            disk.flip_bit(file, (page * PAGE + 4000) as u64, 5);
            let repaired = repair(&disk);
            lost += usize::from(repaired.fits(image.now(), &format!("page {page} of {file}")) > 0);
            damaged += usize::from(repaired.of(file.keyspace().unwrap()).damaged_pages > 0);
            assert!(repaired.of(file.keyspace().unwrap()).indexed == manifest);
        }
    }
    (lost, damaged)
}

#[test]
fn a_damaged_page_costs_its_own_records_and_tells() {
    let (lost, damaged) = damage_each_page(true);
    assert!(lost > 10 && damaged >= lost, "{lost} of {damaged}");
}

#[test]
fn a_damaged_page_tells_without_a_manifest_too() {
    let (lost, damaged) = damage_each_page(false);
    assert!(lost > 10 && damaged >= lost, "{lost} of {damaged}");
}

#[test]
fn a_damaged_log_costs_what_was_written_there() {
    let image = image();
    let segment = image.last_segment();
    let begins = &image.states[0];
    for manifest in [true, false] {
        for at in [0_u64, 60, 4096 + 5, 4096 + 60, 4096 + 400] {
            let disk = image.copy();
            if !manifest {
                remove_manifests(&disk);
            }
            disk.flip_bit(segment, at, 3);
            let repaired = repair(&disk);
            // What the last life wrote may be lost, and nothing else.
            let touched = |key: &Key| image.states.iter().any(|state| state.get(key) != begins.get(key));
            for key in image.now().keys().chain(repaired.content.keys()).filter(|key| !touched(key)) {
                assert_eq!(repaired.content.get(key), begins.get(key), "byte {at}, manifest {manifest}");
            }
            assert!(repaired.fits_but(image.now(), touched) || !repaired.report.is_complete(), "byte {at}, manifest {manifest}");
        }
    }
}

impl Repaired {
    /// Whether all is as expected, with the keys that may be otherwise.
    fn fits_but(&self, expected: &State, touched: impl Fn(&Key) -> bool) -> bool {
        expected.iter().all(|(key, value)| !touched(key) || self.content.get(key) == Some(value))
    }
}

/// Lives of a database that end in the middle of something.
fn crashed(seed: u64) -> SimStorage {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut disk = SimStorage::new(seed);
    for _ in 0..3 {
        disk.crash_at(disk.io_index() + random.random_range(20..900));
        // Whatever fails, fails because of the crash.
        let _ = live(&disk, &mut random);
        let how = if random.random() { Crash::KeepAll } else { Crash::Random(random.random()) };
        disk.power_off();
        disk = disk.crash(how);
    }
    disk
}

fn live(disk: &SimStorage, random: &mut SmallRng) -> Result<()> {
    let database = image::open(disk, random.random())?;
    for round in 0..3 {
        for _ in 0..500 {
            let (id, name) = NAMES[usize::from(random.random_bool(0.2))];
            let keyspace = database.keyspace(name, KeyspaceOptions::default())?;
            let durability = if random.random_bool(0.05) { Durability::Sync } else { Durability::Buffered };
            let key = format!("{id}{:05}", random.random_range(0..2_000) * 7 % 1_999);
            match random.random_bool(0.75) {
                true => keyspace.durability(durability).insert(key, vec![random.random(); random.random_range(0..500)])?,
                false => keyspace.durability(durability).remove(key)?,
            }
        }
        if round < 2 {
            database.flush()?;
        }
    }
    database.close()
}

/// A life that ends cleanly and changes records in place: the pages that a crash left in free space stay there.
fn touch(disk: &SimStorage, seed: u64) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let database = image::open(disk, seed)?;
    for info in database.keyspaces() {
        let keyspace = database.open_keyspace(&info.name)?;
        for record in keyspace.iter().collect::<Result<Vec<_>>>()? {
            let (key, value) = record;
            match random.random_range(0..10) {
                0 => keyspace.remove(key)?,
                1..4 => keyspace.insert(key, vec![random.random(); value.len()])?,
                _ => {}
            }
        }
    }
    database.close()
}

/// What opening makes of it.
fn opened(disk: &SimStorage) -> Result<Option<State>> {
    let copy = disk.crash(Crash::KeepAll);
    let database = match image::open(&copy, 1) {
        Ok(database) => database,
        Err(Error::NotADatabase { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = State::new();
    for (id, name) in database.keyspaces().into_iter().map(|info| (info.id, info.name)) {
        for record in database.open_keyspace(&name)?.iter() {
            let (key, value) = record?;
            content.insert((id, key), value);
        }
    }
    image::abandon(&copy, database);
    Ok(Some(content))
}

#[test]
fn what_a_crash_left_is_repaired_to_what_opening_gives() {
    let rounds: u64 = std::env::var("ECOTONE_REPAIR_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let (mut whole, mut told) = (0, 0);
    for seed in 0..rounds {
        let disk = crashed(seed);
        let Some(expected) = opened(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}")) else { continue };
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(&expected, &format!("seed {seed}")), 0);
        assert!(repaired.report.is_complete(), "seed {seed}: {:#?}", repaired.report);
        remove_manifests(&disk);
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(&expected, &format!("seed {seed}, no manifest")), 0);
        whole += usize::from(repaired.report.is_complete());
        told += usize::from(repaired.report.keyspaces.iter().any(|keyspace| keyspace.doubtful.count > 0));
    }
    println!("{whole} of {rounds} told to be complete without a manifest, {told} with doubtful ranges");
    assert!(whole > 0);
}

/// Neither manifest nor log: everything goes by what the pages say of themselves, also of changes that crashes cut off.
#[test]
fn after_crashes_and_a_clean_end_the_pages_alone_hold_everything() {
    let rounds: u64 = std::env::var("ECOTONE_REPAIR_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut whole = 0;
    // The first ones have a change that a crash cut off and whose pages would hide later writes if production ids came before sequences.
    for seed in 100..100 + rounds {
        let disk = crashed(seed);
        touch(&disk, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let expected = opened(&disk).unwrap().expect("a database");
        for file in disk.files().into_keys().filter(|file| matches!(file, FileId::Log(_) | FileId::Manifest(_))) {
            disk.remove(file).unwrap();
        }
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(&expected, &format!("seed {seed}")), 0, "seed {seed}");
        whole += usize::from(repaired.report.is_complete());
    }
    println!("{whole} of {rounds} told to be complete");
    assert!(whole * 2 > rounds as usize);
}

#[test]
fn any_bytes_are_repaired_or_refused() {
    let image = image();
    let rounds: u64 = std::env::var("ECOTONE_REPAIR_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 0..rounds {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = image.copy();
        let files: Vec<_> = disk.files().into_iter().collect();
        for _ in 0..random.random_range(1..60) {
            let (file, bytes) = &files[random.random_range(0..files.len())];
            let near = if random.random() { 200 } else { bytes.len() };
            disk.flip_bit(*file, random.random_range(0..near.min(bytes.len())) as u64, random.random_range(0..8));
        }
        if random.random_bool(0.3) {
            let (file, bytes) = &files[random.random_range(0..files.len())];
            disk.truncate(*file, random.random_range(0..bytes.len()) as u64);
        }
        match attempt(&disk) {
            Ok(_) => {}
            Err(error) => assert!(!error.is_corruption(), "seed {seed}: {error}"),
        }
    }
}
