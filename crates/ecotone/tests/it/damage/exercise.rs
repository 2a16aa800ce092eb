//! Uses a database of any content.

use ecotone::{Database, Keyspace};
use ecotone_testkit::sim::SimStorage;

use super::image;

/// Opens the database on `disk` and reads, writes, flushes and verifies it. Whatever the content, nothing panics and everything ends.
pub(super) fn exercise(disk: &SimStorage) {
    let Ok(database) = image::open(disk, 7) else { return };
    for info in database.keyspaces() {
        let Ok(keyspace) = database.open_keyspace(&info.name) else { continue };
        read(&keyspace);
        write(&keyspace);
    }
    let _ = database.verify();
    let _ = database.flush();
    after_flush(&database);
    image::abandon(disk, database);
}

fn read(keyspace: &Keyspace) {
    let forward: Vec<_> = keyspace.iter().take(10_000).map_while(Result::ok).collect();
    keyspace.iter().rev().take(10_000).map_while(Result::ok).for_each(drop);
    forward.iter().for_each(|(key, _)| _ = keyspace.get(key));
    let _ = keyspace.multi_get((0..60_u32).map(|i| format!("key/{:06}", i * 10)));
}

fn write(keyspace: &Keyspace) {
    for i in 0..20_u32 {
        let _ = keyspace.insert(format!("key/{:06}", i * 17), vec![i as u8; 100]);
        let _ = keyspace.remove(format!("key/{:06}", i * 10));
    }
}

fn after_flush(database: &Database) {
    database.keyspaces().iter().filter_map(|info| database.open_keyspace(&info.name).ok()).for_each(|keyspace| read(&keyspace));
}
