//! Counts visits in a hashed keyspace from several threads, then copies the counts into an ordered keyspace and prints
//! them in the order of their keys.
//!
//! `cargo run --example visit_counts -- [DIRECTORY]`; without a directory it works in a temporary one.

use std::{path::PathBuf, thread};

use ecotone::{Database, HashKeyspace, HashOptions, Keyspace, KeyspaceOptions, Merge, Result};

const THREADS: usize = 4;
const VISITS: usize = 1000;
const PAGES: [&str; 5] = ["/", "/about", "/search", "/towns/almelo", "/towns/zwolle"];

/// Counts visits. An addition is atomic and reads nothing, so the threads need no lock.
fn visit(visits: &HashKeyspace, thread: usize) -> Result<()> {
    (0..VISITS).try_for_each(|visit| visits.merge(PAGES[visit * (thread + 1) % PAGES.len()], Merge::Add(1)))
}

/// Copies all counts, in no particular order.
fn copy(visits: &HashKeyspace, report: &Keyspace) -> Result<()> {
    let mut counts = visits.iter();
    while let Some((page, count)) = counts.next_ref()? {
        report.insert(page, count)?;
    }
    Ok(())
}

/// Prints the counts of the pages whose path begins with `prefix`, in the order of the paths. Returns their sum.
fn print(report: &Keyspace, prefix: &str) -> Result<i64> {
    let mut sum = 0;
    for record in report.prefix(prefix) {
        let (page, count) = record?;
        let count = count.try_into().map_or(0, i64::from_le_bytes);
        println!("{count:6} {}", String::from_utf8_lossy(&page));
        sum += count;
    }
    Ok(sum)
}

fn main() -> Result<()> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let path = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("visits.db"), PathBuf::from);
    let database = Database::builder(&path).open()?;
    let visits = &database.hash_keyspace("visits", HashOptions::default())?;
    let report = database.keyspace("report", KeyspaceOptions::default())?;

    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || visit(visits, thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    copy(visits, &report)?;
    let sum = print(&report, "/")?;
    println!("{sum} visits");
    database.close()
}
