//! What a read that hits the record cache asks of the allocator: nothing; and what an iterator does: little, however
//! much is dirty. A binary of its own, since it counts the allocations of its threads.

use ecotone::{Database, Engine, KeyspaceOptions};

const RECORDS: u32 = 1_000;

#[test]
fn a_hit_allocates_nothing() {
    let place = tempfile::tempdir().unwrap();
    let database = Database::builder(place.path().join("db")).open().unwrap();
    let towns = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
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

#[test]
fn an_iterator_copies_little_of_what_is_dirty() {
    let place = tempfile::tempdir().unwrap();
    let database = Database::builder(place.path().join("db")).open().unwrap();
    let towns = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    // All of one page.
    (0..20_000_u32).for_each(|number| towns.insert(number.to_be_bytes(), [1; 100]).unwrap());
    for is_backward in [false, true] {
        let counted = allocation_counter::measure(|| {
            let mut iter = towns.iter();
            for _ in 0..300 {
                assert!(if is_backward { iter.next_back_ref() } else { iter.next_ref() }.unwrap().is_some());
            }
        });
        // What names all of them, for a moment, and copies of some.
        assert!(counted.bytes_max < 600_000, "{} bytes", counted.bytes_max);
    }
}
