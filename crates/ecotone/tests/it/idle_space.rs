//! Disk space of deleted records is freed while a database is idle, in all engines.

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ecotone::{Database, Hint, Shape};

use crate::{
    each::{ENGINES, keyspace},
    either::{Either, either},
};

const RECORDS: u64 = 100_000;
const VALUE: usize = 392;
/// One record in twenty is left.
const LEFT: u64 = 20;
const MIB: u64 = 1 << 20;
/// An adaptive keyspace that has only pages before most records are deleted.
const PAGES: &str = "adaptive pages";
/// The longest wait for the space.
const MAX_WAIT: Duration = Duration::from_secs(60);

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Bytes of a directory's files on disk.
fn bytes(directory: &Path) -> u64 {
    let of_file = |entry: std::fs::DirEntry| entry.metadata().map_or(0, |metadata| metadata.blocks() * 512);
    std::fs::read_dir(directory).unwrap().flatten().map(of_file).sum()
}

/// A database in which most records or all were deleted.
fn deleted(directory: &Path, engine: &str, all: bool) -> (Database, Either) {
    let database = Database::builder(directory).memory_budget(32 << 20).open().unwrap();
    let keyspace = keyspace(&database, engine.trim_end_matches(" pages"));
    either!(&keyspace, ks => (0..RECORDS).for_each(|number| ks.insert(key(number), [7; VALUE]).unwrap()));
    if let (PAGES, Either::Ordered(keyspace)) = (engine, &keyspace) {
        database.flush().unwrap();
        keyspace.hint::<Vec<u8>>(.., Hint::ReadMostly).unwrap();
        let begun = Instant::now();
        while keyspace.shapes().iter().any(|range| range.shape != Shape::Pages) || keyspace.shapes().is_empty() {
            assert!(begun.elapsed() < MAX_WAIT, "{:?}", keyspace.shapes());
            thread::sleep(Duration::from_millis(50));
        }
    }
    either!(&keyspace, ks => {
        (0..RECORDS).filter(|number| all || number % LEFT > 0).for_each(|number| ks.remove(key(number)).unwrap());
    });
    (database, keyspace)
}

#[test]
#[ignore = "long"]
fn space_of_what_was_deleted_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let cases: Vec<_> =
        ENGINES.into_iter().chain([PAGES]).flat_map(|engine| [(engine, true), (engine, false)]).collect();
    let path = |engine: &str, all: bool| directory.path().join(format!("{engine} {all}"));
    let open: Vec<_> = cases.iter().map(|(engine, all)| deleted(&path(engine, *all), engine, *all)).collect();
    let begun = Instant::now();
    for (engine, all) in &cases {
        let sessions = if *all { 0 } else { RECORDS / LEFT * (VALUE as u64 + 8) };
        let most = 2 * sessions + 16 * MIB;
        while bytes(&path(engine, *all)) > most {
            let there = bytes(&path(engine, *all)) as f64 / MIB as f64;
            assert!(begun.elapsed() < MAX_WAIT, "{engine}, all deleted: {all}: {there:.1} MiB of files");
            thread::sleep(Duration::from_millis(500));
        }
    }
    for ((_, all), (_database, keyspace)) in cases.iter().zip(&open) {
        for number in 0..RECORDS / 100 {
            let expected = (!all && number % LEFT == 0).then(|| vec![7; VALUE]);
            either!(keyspace, ks => assert_eq!(ks.get(key(number)).unwrap(), expected));
        }
    }
}
