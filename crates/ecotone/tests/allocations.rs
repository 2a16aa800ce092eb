//! What a read that hits the record cache asks of the allocator: nothing. A binary of its own, since it counts the allocations of its threads.

use ecotone::{Database, KeyspaceOptions};

const RECORDS: u32 = 1_000;

#[test]
fn a_hit_allocates_nothing() {
    let place = tempfile::tempdir().unwrap();
    let database = Database::builder(place.path().join("db")).open().unwrap();
    let towns = database.keyspace("towns", KeyspaceOptions::default()).unwrap();
    let records: Vec<_> = (0..RECORDS).map(|number| (number.to_be_bytes(), [number as u8; 100])).collect();
    towns.bulk_load(records.clone()).unwrap();
    let mut value = Vec::with_capacity(100);
    let mut read = || {
        for (key, expected) in &records {
            value.clear();
            assert!(towns.get_into(key, &mut value).unwrap() && value == expected);
        }
    };
    let misses = || towns.stats().counters.iter().find(|(name, _)| *name == "cache_misses").unwrap().1;
    read();
    let (before, counted) = (misses(), allocation_counter::measure(&mut read));
    assert_eq!((misses() - before, counted.count_total), (0, 0));
}
