//! Orphans: files of pages without a keyspace. Those that no later manifest can need are removed, and no others.

use std::collections::BTreeSet;

use ecotone::{Database, Engine, Error, KeyspaceOptions, internal::substrate::storage::FileId};
use ecotone_testkit::sim::{Crash, SimStorage};

use super::image::{self, MANIFESTS};

fn pages(disk: &SimStorage) -> BTreeSet<u32> {
    let number = |file| if let FileId::Pages(number) = file { Some(number) } else { None };
    disk.files().into_keys().filter_map(number).collect()
}

/// Both copies of the manifest.
fn manifests(disk: &SimStorage) -> Vec<(FileId, Vec<u8>)> {
    MANIFESTS.map(|file| (file, disk.files()[&file].clone())).to_vec()
}

/// The files at the end of a session.
fn end(disk: &SimStorage, database: Database) -> SimStorage {
    let after = disk.crash(Crash::KeepAll);
    image::abandon(disk, database);
    after
}

/// Creates the keyspaces with one flushed record in each.
fn fill(database: &Database, names: &[&str]) {
    for name in names {
        let keyspace = database.keyspace(name, KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
        keyspace.insert("key", name.as_bytes()).unwrap();
    }
    database.flush().unwrap();
}

#[test]
fn an_old_manifest_removes_nothing_of_what_came_after_it() {
    let disk = SimStorage::new(1);
    let database = image::open(&disk, 7).unwrap();
    fill(&database, &["old"]);
    let old = manifests(&disk);
    fill(&database, &["newer", "newest"]);
    let disk = end(&disk, database);
    let newest = manifests(&disk);

    // With both copies of the manifest, and with a damaged newer copy.
    for damaged in [false, true] {
        let restored = disk.crash(Crash::KeepAll);
        old.iter().for_each(|(file, bytes)| restored.put(*file, bytes));
        if damaged {
            restored.put(newest[1].0, &newest[1].1);
            restored.flip_bit(newest[1].0, 70, 1);
        }
        let error = image::open(&restored, 7).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        for part in ["manifest.1", "pages.2", "restore the newest manifest files"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(pages(&restored), BTreeSet::from([1, 2, 3]));

        newest.iter().for_each(|(file, bytes)| restored.put(*file, bytes));
        let database = image::open(&restored, 7).unwrap();
        for name in ["old", "newer", "newest"] {
            assert_eq!(database.open_keyspace(name).unwrap().get("key").unwrap().as_deref(), Some(name.as_bytes()));
        }
        image::abandon(&restored, database);
    }
}

/// Crashes a creation, a first write or a drop at every I/O. The next session opens, has only files of its keyspaces,
/// and can write to these.
fn crash_everywhere(before: &[&str], act: impl Fn(&Database) -> Result<(), Error>) {
    let disk = SimStorage::new(2);
    let database = image::open(&disk, 7).unwrap();
    fill(&database, before);
    let disk = end(&disk, database);
    for index in 0.. {
        let session = disk.crash(Crash::KeepAll);
        let database = image::open(&session, 7).unwrap();
        session.crash_at(session.io_index() + index);
        let acted = act(&database);
        let reached = session.is_off();
        image::abandon(&session, database);
        for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(index), Crash::Random(!index)] {
            let after = session.crash(how);
            let place = format!("I/O {index}, {how:?}");
            let database = image::open(&after, 7).unwrap_or_else(|error| panic!("{place}: {error}"));
            let used: BTreeSet<u32> = database.keyspaces().iter().map(|info| info.id).collect();
            assert!(pages(&after).is_subset(&used), "{place}: {used:?}");
            let next = database.create_keyspace("next", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
            assert!(!used.contains(&id(&database, next.name())), "{place}");
            for info in database.keyspaces() {
                let keyspace = database.open_keyspace(&info.name).unwrap();
                let there = before.contains(&info.name.as_str()).then(|| info.name.clone().into_bytes());
                assert!(keyspace.get("key").unwrap() == there || there.is_none(), "{place}");
                keyspace.insert("another", "record").unwrap();
            }
            assert_eq!(pages(&after).len(), database.keyspaces().len(), "{place}");
            image::abandon(&after, database);
        }
        if !reached {
            return acted.unwrap();
        }
    }
}

fn id(database: &Database, name: &str) -> u32 {
    database.keyspaces().iter().find(|info| info.name == name).expect("a keyspace").id
}

#[test]
fn an_interrupted_creation_or_first_write_leaves_no_file() {
    crash_everywhere(&["first"], |database| {
        let keyspace = database.create_keyspace("second", KeyspaceOptions::default().engine(Engine::Tree))?;
        keyspace.insert("key", "second")
    });
}

#[test]
fn an_interrupted_drop_leaves_no_file() {
    crash_everywhere(&["first", "second"], |database| database.drop_keyspace("first"));
}

#[test]
fn a_first_write_that_a_full_disk_refuses_leaves_no_file() {
    let disk = SimStorage::new(3);
    let database = image::open(&disk, 7).unwrap();
    fill(&database, &["first"]);
    let before = disk.space_used();
    // Too little for the file, which has a block of 64 pages. Manifests need no space, and the log has some.
    let (file, step) = (64 * 4096, 512);
    disk.space_limit(before);
    let second = database.create_keyspace("second", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    for more in (0..10).map(|i| i * step).chain((1..10).map(|i| file - i * step)) {
        disk.space_limit(before + more);
        let error = second.insert("key", "value").unwrap_err();
        assert!(error.is_no_space(), "{error}");
        assert_eq!(second.get("key").unwrap(), None);
        assert_eq!(pages(&disk), BTreeSet::from([1]), "with {more} bytes");
    }
    disk.space_limit(before + file);
    second.insert("key", "value").unwrap();
    assert_eq!(second.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    image::abandon(&disk, database);
}
