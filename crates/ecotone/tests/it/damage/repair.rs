//! Repair of databases with damage in every place. Every loss is reported, and every wrong record is reported as
//! doubtful.

use ecotone::internal::substrate::{limits::PAGE, storage::FileId};
use ecotone_testkit::{
    model::{Key, State},
    sim::{Crash, SimStorage},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    either::{Either, either},
    image::{self, Image, NAMES},
    repaired::{Repaired, attempt},
};
use crate::liveness::keyspace;

pub(super) fn repair(disk: &SimStorage) -> Repaired {
    attempt(disk).expect("damage is no error")
}

fn image() -> Image {
    Image::of(1, 390)
}

/// The pages of a file of these kinds, by their kind byte.
fn pages_of_kind(bytes: &[u8], kinds: &[u8]) -> Vec<usize> {
    let kind = |page: usize| bytes[page * PAGE + 5];
    (1..bytes.len() / PAGE).filter(|page| kinds.contains(&kind(*page))).collect()
}

pub(super) fn remove_manifests(disk: &SimStorage) {
    for file in disk.files().into_keys().filter(|file| matches!(file, FileId::Manifest(_))) {
        disk.truncate(file, 40);
    }
}

pub(super) fn remove_logs(disk: &SimStorage) {
    disk.files().into_keys().filter(|file| matches!(file, FileId::Log(_))).for_each(|file| disk.truncate(file, 0));
}

/// A copy of an image without records that only the log has.
pub(super) fn flushed(image: &Image) -> SimStorage {
    let disk = image.copy();
    let (database, jobs) = image::open_watched(&disk, 3).unwrap();
    database.flush().unwrap();
    while jobs.run_one() {}
    database.close().unwrap();
    disk.crash(Crash::KeepAll)
}

#[test]
fn an_intact_database_comes_back_whole() {
    let image = image();
    let repaired = repair(&image.copy());
    assert_eq!(repaired.fits(image.now(), "intact"), 0);
    assert!(repaired.report.is_complete() && repaired.report.problems.is_empty(), "{:#?}", repaired.report);
    let names: Vec<_> =
        repaired.report.keyspaces.iter().map(|keyspace| (keyspace.id, keyspace.name.as_str())).collect();
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

/// Keyspaces whose records the manifest does not have come back with those of the log, and an unwritten keyspace comes
/// back empty.
#[test]
fn keyspaces_whose_first_write_is_in_the_log_alone_come_back_whole() {
    for flushes in [false, true] {
        let disk = SimStorage::new(1);
        let database = image::open(&disk, 1).unwrap();
        let mut content = State::new();
        for (id, engine) in (1..).step_by(2).zip(["tree", "lsm", "adaptive", "hash"]) {
            let made = keyspace(&database, engine, engine, true).unwrap();
            for number in 0..300_u32 {
                let (key, value) = (number.to_be_bytes().to_vec(), vec![number as u8; 40]);
                either!(&made, keyspace => keyspace.insert(&key, &value)).unwrap();
                content.insert((id, key), value);
            }
            keyspace(&database, &format!("nothing of {engine}"), engine, true).unwrap();
        }
        if flushes {
            database.flush().unwrap();
        }
        let killed = disk.crash(Crash::KeepAll);
        image::abandon(&disk, database);
        let repaired = repair(&killed);
        assert!(repaired.content == content, "flushed {flushes}: {:#?}", repaired.report);
        assert!(
            repaired.report.is_complete() && repaired.report.problems.is_empty(),
            "flushed {flushes}: {:#?}",
            repaired.report
        );
        assert_eq!(repaired.report.keyspaces.len(), 8);
        let lost = killed.crash(Crash::KeepAll);
        remove_manifests(&lost);
        let repaired = repair(&lost);
        assert_eq!(repaired.fits(&content, &format!("no manifest, flushed {flushes}")), 0);
    }
}

/// For each of its files, with a manifest and without.
#[test]
fn damage_of_one_keyspace_costs_others_nothing() {
    let image = Image::adaptive(1);
    for file in image.files().into_keys().filter(|file| file.keyspace() == Some(1)) {
        for manifest in [true, false] {
            let disk = image.copy();
            if !manifest {
                remove_manifests(&disk);
            }
            disk.truncate(file, 5_000);
            (0..5_000).step_by(500).for_each(|offset| disk.flip_bit(file, offset, 3));
            repair(&disk).assert_has(2, &image, &format!("{file} damaged, manifest {manifest}"));
        }
    }
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

/// Damages every data page in turn. Returns how often something was lost, and how often the loss was uncertain.
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
            // Only writes of the last session may be lost.
            let touched = |key: &Key| image.states.iter().any(|state| state.get(key) != begins.get(key));
            for key in image.now().keys().chain(repaired.content.keys()).filter(|key| !touched(key)) {
                assert_eq!(repaired.content.get(key), begins.get(key), "byte {at}, manifest {manifest}");
            }
            assert!(
                repaired.fits_but(image.now(), touched) || !repaired.report.is_complete(),
                "byte {at}, manifest {manifest}"
            );
        }
    }
}

impl Repaired {
    /// Whether everything is as expected, except for keys that `touched` allows to differ.
    fn fits_but(&self, expected: &State, touched: impl Fn(&Key) -> bool) -> bool {
        expected.iter().all(|(key, value)| !touched(key) || self.content.get(key) == Some(value))
    }
}

#[test]
fn any_bytes_are_repaired_or_refused() {
    let rounds: u64 = std::env::var("ECOTONE_REPAIR_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for image in [image(), Image::hashed(1), Image::lsm(1), Image::adaptive(1)] {
        for seed in 0..rounds {
            let disk = image.copy();
            hurt_anywhere(&disk, seed);
            match attempt(&disk) {
                Ok(_) => {}
                Err(error) => assert!(!error.is_corruption(), "{:?}, seed {seed}: {error}", image.engines),
            }
        }
    }
}

/// Flips some bits, and may cut a file.
fn hurt_anywhere(disk: &SimStorage, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
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
}
