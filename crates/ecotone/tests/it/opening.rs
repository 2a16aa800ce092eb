//! A database is opened, read and closed without a write, a sync or a new file (commit-and-recovery.md, "Manifest and
//! sessions").

use std::collections::BTreeMap;

use ecotone::{
    Database, Engine, Error, HashKeyspaceOptions, KeyspaceOptions,
    internal::substrate::storage::{FileId, FileKind, Storage},
};
use ecotone_testkit::sim::{Crash, Io, SimStorage};

use crate::{
    damage::image,
    either::{Either, either},
};

const ENGINES: [&str; 4] = ["tree", "hash", "lsm", "adaptive"];

fn keyspace(database: &Database, engine: &str, logged: bool) -> Either {
    let name = format!("{engine} {logged}");
    if engine == "hash" {
        let options = if logged { HashKeyspaceOptions::default() } else { HashKeyspaceOptions::default().unlogged() };
        return Either::Hashed(database.hash_keyspace(&name, options).unwrap());
    }
    let options = KeyspaceOptions::default().engine(Engine::Tree).engine_named(engine);
    Either::Ordered(database.keyspace(&name, if logged { options } else { options.unlogged() }).unwrap())
}

fn key(number: u32) -> String {
    format!("key/{number:06}")
}

fn fill(database: &Database, engine: &str, logged: bool) {
    let keyspace = keyspace(database, engine, logged);
    for round in 0..3_u32 {
        for number in 0..800 {
            either!(&keyspace, keyspace => keyspace.insert(key(number * 7 % 800), vec![round as u8; 300]).unwrap());
        }
        database.flush().unwrap();
    }
    either!(&keyspace, keyspace => keyspace.insert("last", "one").unwrap());
}

/// A cleanly closed database, with a logged and an unlogged keyspace of the engine.
fn closed(engine: &str) -> SimStorage {
    let disk = SimStorage::new(1);
    let database = image::open(&disk, 7).unwrap();
    [true, false].iter().for_each(|logged| fill(&database, engine, *logged));
    database.close().unwrap();
    // The process is gone, and with it all unsynced data.
    disk.crash(Crash::DropAll)
}

fn read(database: &Database, engine: &str) {
    for logged in [true, false] {
        either!(&keyspace(database, engine, logged), keyspace => {
            assert_eq!(keyspace.get("last").unwrap().as_deref(), Some(&b"one"[..]), "{engine}");
            assert_eq!(keyspace.iter().count(), 801, "{engine}");
        });
    }
}

/// The I/Os that changed the disk, by kind.
fn changes(disk: &SimStorage) -> BTreeMap<String, usize> {
    let mut changes = BTreeMap::new();
    for label in disk.labels().iter().filter(|label| label.io != Io::Read) {
        *changes.entry(format!("{label:?}")).or_default() += 1;
    }
    changes
}

#[test]
fn a_closed_database_is_opened_read_and_closed_without_a_write() {
    for engine in ENGINES {
        let disk = closed(engine);
        let files = disk.files();
        for _ in 0..2 {
            let (database, jobs) = image::open_watched(&disk, 7).unwrap();
            read(&database, engine);
            while jobs.run_one() {}
            database
                .verify()
                .unwrap()
                .iter()
                .for_each(|(_, check)| assert!(check.problems.is_empty(), "{:?}", check.problems));
            database.flush().unwrap();
            database.sync().unwrap();
            database.close().unwrap();
        }
        assert_eq!(changes(&disk), BTreeMap::new(), "{engine}");
        assert!(disk.files() == files, "{engine}");
    }
}

/// The same in a real directory with workers, where background work has time to run.
#[test]
fn the_same_holds_for_a_directory_and_workers() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        let path = directory.path().join(engine);
        let open = || Database::builder(&path).memory_budget(16 << 20).open().unwrap();
        let database = open();
        [true, false].iter().for_each(|logged| fill(&database, engine, *logged));
        database.close().unwrap();
        let written = || {
            let entries = std::fs::read_dir(&path).unwrap().map(Result::unwrap);
            let told = |entry: std::fs::DirEntry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap());
            entries.map(told).filter(|(name, _)| name != "LOCK").collect::<BTreeMap<_, _>>()
        };
        let before = written();
        let database = open();
        read(&database, engine);
        while database.stats().background_jobs > 0 {
            std::thread::yield_now();
        }
        let device = database.stats().io;
        database.close().unwrap();
        assert_eq!((device.writes, device.syncs), (0, 0), "{engine}");
        assert_eq!(written(), before, "{engine}");
    }
}

#[test]
fn a_session_begins_with_the_first_write_of_any_kind() {
    for engine in ENGINES {
        for logged in [true, false] {
            let disk = closed(engine);
            let database = image::open(&disk, 7).unwrap();
            let before = disk.files().len();
            either!(&keyspace(&database, engine, logged), keyspace => keyspace.insert("last", "other").unwrap());
            let made = disk.files().into_keys().filter(|file| matches!(file, FileId::Log(_))).count();
            assert!(changes(&disk).keys().any(|change| change.contains("Log")), "{engine}, logged {logged}");
            assert!(made >= 2 && disk.files().len() >= before, "{engine}, logged {logged}");
            drop(database);
            let database = image::open(&disk.crash(Crash::DropAll), 7).unwrap();
            either!(&keyspace(&database, engine, logged), keyspace => {
                assert_eq!(keyspace.get("last").unwrap().as_deref(), Some(&b"other"[..]), "{engine}, logged {logged}");
            });
        }
    }
}

/// Crashes at each I/O of the first write after a clean shutdown, and of the next open.
#[test]
fn no_crash_of_a_first_write_loses_anything() {
    for engine in ENGINES {
        let closed = closed(engine);
        for io in 0.. {
            let disk = closed.crash(Crash::KeepAll);
            let database = image::open(&disk, 7).unwrap();
            disk.crash_at(disk.io_index() + io);
            let written = either!(keyspace(&database, engine, true), keyspace => {
                keyspace.durability(ecotone::Durability::Sync).insert("last", "two").is_ok()
            });
            let reached = disk.is_off();
            image::abandon(&disk, database);
            for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(io), Crash::Random(!io)] {
                let left = disk.crash(how);
                left.crash_at(io % 23);
                let _ = image::open(&left, 7).map(|database| image::abandon(&left, database));
                let after = left.crash(Crash::Random(io + 5));
                let database =
                    image::open(&after, 7).unwrap_or_else(|error| panic!("{engine}, I/O {io}, {how:?}: {error}"));
                let value = either!(keyspace(&database, engine, true), keyspace => keyspace.get("last").unwrap());
                let expected: &[&[u8]] = if written { &[b"two"] } else { &[b"one", b"two"] };
                assert!(expected.contains(&value.unwrap().as_slice()), "{engine}, I/O {io}, {how:?}");
                image::abandon(&after, database);
            }
            if !reached {
                assert!(io > 3, "{engine}: {io} I/Os");
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_is_read_listed_and_has_keyspaces_dropped_under_any_budget() {
    for engine in ENGINES {
        let disk = closed(engine);
        disk.space_limit(disk.space_used());
        for budget in [16 << 20, 64 << 20] {
            let database = image::open_within(&disk, 7, budget).unwrap().0;
            read(&database, engine);
            assert!(!database.keyspaces().is_empty());
            database.close().unwrap();
        }
        assert_eq!(changes(&disk), BTreeMap::new(), "{engine}");
        let database = image::open_within(&disk, 7, 64 << 20).unwrap().0;
        // An unneeded log segment may leave space for the write.
        let written = either!(keyspace(&database, engine, true), keyspace => keyspace.insert("new", "value"));
        assert!(matches!(written, Ok(()) | Err(Error::NoSpace { .. })), "{engine}: {written:?}");
        database.drop_keyspace(&format!("{engine} true")).unwrap();
        database.close().unwrap();
        let database = image::open(&disk, 7).unwrap();
        assert_eq!(database.keyspaces().len(), 1, "{engine}");
        image::abandon(&disk, database);
    }
}

/// A full disk is an ordinary state. A close loses nothing, although the latest writes have no space in the files, and
/// the next open needs no space.
#[test]
fn a_database_that_fills_the_disk_closes_and_opens_there() {
    for engine in ENGINES {
        let disk = SimStorage::new(1);
        let database = image::open(&disk, 7).unwrap();
        let records = keyspace(&database, engine, true);
        database.flush().unwrap();
        // An lsm keyspace reserves some of that for compaction.
        disk.space_limit(disk.space_used() + (4 << 20));
        let write = |number| either!(&records, keyspace => keyspace.insert(key(number), [7; 500]));
        let written = (0..1_000_000).find(|number| {
            let answer = write(*number);
            assert!(matches!(answer, Ok(()) | Err(Error::NoSpace { .. })), "{engine}: {answer:?}");
            answer.is_err()
        });
        let written = written.expect("the disk is full") as usize;
        assert!(written > 1_000, "{engine}: {written} records");
        drop(records);
        database.close().unwrap();
        let disk = disk.crash(Crash::DropAll);
        for _ in 0..2 {
            let database = image::open(&disk, 7).unwrap();
            let count = either!(&keyspace(&database, engine, true), keyspace => keyspace.iter().count());
            assert_eq!(count, written, "{engine}");
            database.close().unwrap();
        }
        disk.space_limit(u64::MAX);
        let database = image::open(&disk, 7).unwrap();
        either!(&keyspace(&database, engine, true), keyspace => {
            keyspace.insert("new", "value").unwrap();
            assert_eq!(keyspace.iter().count(), written + 1, "{engine}");
        });
        database.close().unwrap();
    }
}

/// Damage to each file of a closed database: an error that names the file, or the right content.
#[test]
fn whatever_a_closed_database_loses_is_told_or_not_needed() {
    for engine in ENGINES {
        let disk = closed(engine);
        for (file, bytes) in disk.files() {
            let losses: [&dyn Fn(&SimStorage); 5] = [
                &|disk| disk.remove(file).unwrap(),
                &|disk| disk.truncate(file, 0),
                &|disk| disk.put(file, &vec![0; bytes.len()]),
                &|disk| disk.truncate(file, bytes.len() as u64 / 2),
                &|disk| disk.flip_bit(file, 30, 1),
            ];
            for (number, lose) in losses.iter().enumerate() {
                let (hurt, place) = (disk.crash(Crash::KeepAll), format!("{engine}: {file}, loss {number}"));
                lose(&hurt);
                let database = match image::open(&hurt, 7) {
                    Ok(database) => database,
                    Err(error) => {
                        assert!(error.to_string().contains(&file.to_string()), "{place}: {error}");
                        assert_ne!(file.kind(), FileKind::Manifest, "{place}: either copy suffices");
                        continue;
                    }
                };
                for logged in [true, false] {
                    either!(&keyspace(&database, engine, logged), keyspace => {
                        match keyspace.get("last") {
                            Ok(value) => assert_eq!(value.as_deref(), Some(&b"one"[..]), "{place}"),
                            Err(error) => assert!(error.to_string().contains(&file.to_string()), "{place}: {error}"),
                        }
                        let (good, bad): (Vec<_>, Vec<_>) = keyspace.iter().partition(Result::is_ok);
                        assert!(good.len() == 801 || !bad.is_empty(), "{place}: {} records", good.len());
                    });
                }
                image::abandon(&hurt, database);
            }
        }
    }
}
