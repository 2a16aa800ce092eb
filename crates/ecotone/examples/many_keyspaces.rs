//! Creates many keyspaces with a few records each, and prints their costs: time, memory, disk, and the next open.
//!
//! `cargo run --release --example many_keyspaces -- ENGINE KEYSPACES RECORDS MEMORY_MIB [DIRECTORY]`, such as `tree
//! 10000 0 256`.

use std::{
    error::Error,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Instant,
};

use ecotone::{Database, Engine, HashKeyspace, HashOptions, Keyspace, KeyspaceOptions, Result};

/// A keyspace of either kind.
enum Made {
    Ordered(Keyspace),
    Hashed(HashKeyspace),
}

impl Made {
    fn open(database: &Database, engine: &str, number: usize) -> Result<Made> {
        let name = format!("keyspace {number}");
        let engine = match engine {
            "tree" => Engine::Tree,
            "lsm" => Engine::Lsm,
            "adaptive" => Engine::Adaptive,
            _ => return database.hash_keyspace(&name, HashOptions::default()).map(Made::Hashed),
        };
        database.keyspace(&name, KeyspaceOptions::default().engine(engine)).map(Made::Ordered)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Made::Ordered(keyspace) => keyspace.insert(key, value),
            Made::Hashed(keyspace) => keyspace.insert(key, value),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Made::Ordered(keyspace) => keyspace.get(key),
            Made::Hashed(keyspace) => keyspace.get(key),
        }
    }
}

/// Resident memory of the process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Bytes on disk and number of files of a directory.
fn disk(directory: &Path) -> (u64, usize) {
    let files: Vec<_> =
        fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|file| file.metadata().ok()).collect();
    (files.iter().map(|file| file.blocks() * 512).sum(), files.len())
}

fn tell(what: &str, began: Instant, database: Option<&Database>, directory: &Path) {
    let (bytes, files) = disk(directory);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    print!(
        "{what:<10} {:>8.2} s  resident {:>7.1} MiB  disk {:>7.1} MiB in {files} files",
        began.elapsed().as_secs_f64(),
        mib(resident()),
        mib(bytes)
    );
    if let Some(stats) = database.map(Database::stats) {
        print!("  budget held {:.1}, leased", mib(stats.memory_held));
        stats
            .memory
            .iter()
            .filter(|part| part.bytes > 0)
            .for_each(|part| print!(" {} {:.2}", part.component, mib(part.bytes)));
    }
    println!();
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, keyspaces, records, memory, rest @ ..] = &arguments[..] else {
        return Err("usage: many_keyspaces ENGINE KEYSPACES RECORDS MEMORY_MIB [DIRECTORY]".into());
    };
    let (keyspaces, records, memory) = (keyspaces.parse()?, records.parse::<usize>()?, memory.parse::<usize>()? << 20);
    let temporary = tempfile::tempdir()?;
    let path = rest.first().map_or_else(|| temporary.path().join("many.db"), PathBuf::from);

    let began = Instant::now();
    let database = Database::builder(&path).memory_budget(memory).open()?;
    tell("empty", began, Some(&database), &path);
    let began = Instant::now();
    let made = (0..keyspaces).map(|number| Made::open(&database, engine, number)).collect::<Result<Vec<_>>>()?;
    tell("made", began, Some(&database), &path);
    if records > 0 {
        let began = Instant::now();
        for (number, keyspace) in made.iter().enumerate() {
            (0..records).try_for_each(|record| {
                keyspace.insert(
                    format!("{record:08}").as_bytes(),
                    format!("{number} {record} {}", "x".repeat(90)).as_bytes(),
                )
            })?;
        }
        tell("written", began, Some(&database), &path);
    }
    let began = Instant::now();
    database.flush()?;
    tell("flushed", began, Some(&database), &path);
    let began = Instant::now();
    assert_eq!(database.keyspaces().len(), keyspaces);
    tell("listed", began, Some(&database), &path);
    drop(made);
    let began = Instant::now();
    database.close()?;
    tell("closed", began, None, &path);

    let began = Instant::now();
    let database = Database::builder(&path).memory_budget(memory).open()?;
    tell("opened", began, Some(&database), &path);
    let began = Instant::now();
    for number in 0..keyspaces {
        let keyspace = Made::open(&database, engine, number)?;
        for record in 0..records {
            let value = keyspace.get(format!("{record:08}").as_bytes())?.ok_or("a record is gone")?;
            assert!(value.starts_with(format!("{number} {record} ").as_bytes()));
        }
    }
    tell("read", began, Some(&database), &path);
    let began = Instant::now();
    (0..keyspaces.min(10)).try_for_each(|number| database.drop_keyspace(&format!("keyspace {number}")))?;
    tell("10 dropped", began, Some(&database), &path);
    let began = Instant::now();
    database.close()?;
    tell("closed", began, None, &path);
    Ok(())
}
