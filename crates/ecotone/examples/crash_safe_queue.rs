//! A queue of jobs that survives power failures. A job is accepted once it is synced, and removed only after it is
//! done.
//!
//! `cargo run --example crash_safe_queue -- [DIRECTORY]`; without a directory it works in a temporary one. Kill it
//! while it works in your own directory and start it again: it continues with the remaining jobs.

use std::path::PathBuf;

use ecotone::{Database, Durability, Keyspace, KeyspaceOptions, Result};

/// The jobs of one urgency sort by their number, as big-endian bytes do.
fn key(urgency: &str, number: u64) -> Vec<u8> {
    [urgency.as_bytes(), b"/", &number.to_be_bytes()].concat()
}

/// Adds a job behind all others of its urgency. When this returns, the job survives a power failure.
fn push(queue: &Keyspace, urgency: &str, job: &str) -> Result<()> {
    let last = queue.prefix(format!("{urgency}/")).next_back().transpose()?;
    let number = last.and_then(|(key, _)| key.last_chunk().copied()).map_or(0, |last| u64::from_be_bytes(last) + 1);
    queue.insert(key(urgency, number), job)
}

/// Does the jobs of one urgency in order, and removes each when it is done.
fn work(queue: &Keyspace, urgency: &str) -> Result<u32> {
    let mut done = 0;
    for record in queue.prefix(format!("{urgency}/")) {
        let (key, job) = record?;
        println!("{urgency}: {}", String::from_utf8_lossy(&job));
        queue.remove(key)?;
        done += 1;
    }
    Ok(done)
}

/// The number of jobs in the queue.
fn jobs(queue: &Keyspace) -> Result<usize> {
    queue.iter().try_fold(0, |jobs, job| job.map(|_| jobs + 1))
}

fn main() -> Result<()> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let path = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("queue.db"), PathBuf::from);
    let database = Database::builder(&path).durability(Durability::Sync).open()?;
    let queue = database.keyspace("queue", KeyspaceOptions::default())?;
    println!("{} jobs were left from last time", jobs(&queue)?);

    push(&queue, "later", "water the plants")?;
    push(&queue, "now", "put out the fire")?;
    push(&queue, "now", "call the fire brigade")?;
    push(&queue, "later", "buy new plants")?;

    let done = work(&queue, "now")? + work(&queue, "later")?;
    println!("{done} jobs done, {} left", jobs(&queue)?);
    database.close()
}
