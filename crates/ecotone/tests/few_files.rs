//! A process that may have few files open: 64 are enough for everything, whatever the threads and tables; with fewer an
//! opening says so. The limit is the process's, so this is a program of its own.

use std::thread;

use ecotone::{Database, Engine, Error, HashOptions, KeyspaceOptions, Result};
use ecotone_sys::file::set_most_open;

const THREADS: u32 = 24;
const RECORDS: u32 = 2_000;

fn key(number: u32) -> [u8; 8] {
    u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// What every thread does with each kind of keyspace.
macro_rules! use_it {
    ($keyspace:expr, $database:expr, $thread:expr) => {{
        for number in 0..RECORDS {
            $keyspace.insert(key($thread * RECORDS + number), [7; 300])?;
        }
        let mut batch = $database.batch();
        (0..500).for_each(|number| batch.insert($keyspace, key(number), [7; 300]));
        batch.commit()?;
        let keys: Vec<[u8; 8]> = (0..1_000).map(|number| key($thread * RECORDS + number * 2)).collect();
        assert!($keyspace.multi_get(&keys)?.iter().all(Option::is_some));
        assert!($keyspace.iter().take(5_000).collect::<Result<Vec<_>>>()?.len() >= RECORDS as usize);
        if $thread % 8 == 0 {
            $database.flush()?;
        }
        Ok::<(), Error>(())
    }};
}

fn sessions(path: &std::path::Path) -> Result<()> {
    for session in 0..2 {
        let database = Database::builder(path).memory_budget(16 << 20).open()?;
        let hashed = database.hash_keyspace("hash", HashOptions::default())?;
        let engines = [("tree", Engine::Tree), ("lsm", Engine::Lsm), ("adaptive", Engine::Adaptive)];
        let ordered = engines.map(|(name, engine)| database.keyspace(name, KeyspaceOptions::default().engine(engine)));
        let ordered = ordered.into_iter().collect::<Result<Vec<_>>>()?;
        // Many that are hardly used, too.
        for number in 0..20 {
            let options = KeyspaceOptions::default().engine(engines[number % 3].1);
            database.keyspace(&format!("little {number}"), options)?.insert("a", "b")?;
        }
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (database, hashed, ordered) = (&database, &hashed, &ordered);
                    scope.spawn(move || match thread as usize % 4 {
                        0 => use_it!(hashed, database, thread),
                        other => use_it!(&ordered[other - 1], database, thread),
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        assert_eq!(database.failure().map(|failure| failure.to_string()), None, "life {session}");
        assert!(database.verify()?.iter().all(|(_, check)| check.problems.is_empty()));
        drop((hashed, ordered));
        database.close()?;
    }
    Ok(())
}

#[test]
fn sixty_four_files_are_enough_and_fewer_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    set_most_open(64).unwrap();
    let lived = sessions(&path);
    if let Err(error) = lived {
        set_most_open(200).unwrap();
        let open = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok());
        panic!("{error}; open now: {:?}", open.collect::<Vec<_>>());
    }
    set_most_open(40).unwrap();
    let error = Database::builder(&path).open().unwrap_err();
    assert!(error.to_string().contains("may have 40 files open") && error.to_string().contains("ulimit"), "{error}");
    set_most_open(64).unwrap();
    Database::builder(&path).memory_budget(16 << 20).open().unwrap();
}
