//! Exercises a database of any content.

use ecotone::{Database, Hint};
use ecotone_testkit::sim::SimStorage;

use super::{
    either::{Either, either},
    image,
};

/// More jobs than a small database has after a few writes. A damaged one may have more forever.
const JOBS: usize = 100;

/// Opens the database on `disk`, reads, writes, flushes and verifies it, and converts ranges. Whatever the content,
/// nothing panics and everything ends.
pub(super) fn exercise(disk: &SimStorage) {
    let Ok((database, jobs)) = image::open_watched(disk, 7) else { return };
    for info in database.keyspaces() {
        let Ok(keyspace) = image::keyspace(&database, &info.name) else { continue };
        read(&keyspace);
        write(&keyspace);
        reshape(&keyspace);
    }
    let _ = (0..JOBS).take_while(|_| jobs.run_one()).count();
    let _ = database.verify();
    let _ = database.flush();
    after_flush(&database);
    image::abandon(disk, database);
}

fn read(keyspace: &Either) {
    if let Either::Ordered(keyspace) = keyspace {
        keyspace.iter().rev().take(10_000).map_while(Result::ok).for_each(drop);
    }
    either!(keyspace, keyspace => {
        let forward: Vec<_> = keyspace.iter().take(10_000).map_while(Result::ok).collect();
        forward.iter().for_each(|(key, _)| _ = keyspace.get(key));
        let _ = keyspace.multi_get((0..60_u32).map(|i| format!("key/{:06}", i * 10)));
    });
}

fn write(keyspace: &Either) {
    for i in 0..20_u32 {
        either!(keyspace, keyspace => {
            let _ = keyspace.insert(format!("key/{:06}", i * 17), vec![i as u8; 100]);
            let _ = keyspace.remove(format!("key/{:06}", i * 10));
        });
    }
}

/// Converts the lower half of the keys of an adaptive keyspace to tables and the upper half to pages. Other engines
/// ignore the hints.
fn reshape(keyspace: &Either) {
    if let Either::Ordered(keyspace) = keyspace {
        let _ = keyspace.hint(.."key/000900", Hint::WriteMostly);
        let _ = keyspace.hint("key/000900".., Hint::ReadMostly);
    }
}

fn after_flush(database: &Database) {
    database
        .keyspaces()
        .iter()
        .filter_map(|info| image::keyspace(database, &info.name).ok())
        .for_each(|keyspace| read(&keyspace));
}
