//! Statistics show the delays of writers.

use std::sync::Arc;

use ecotone::{
    Database, Engine, KeyspaceOptions, WriterDelays,
    internal::{Components, tree::TreeFamily},
    limits,
};
use ecotone_testkit::sim::{SimClock, SimStorage};

#[test]
fn the_delays_of_writers_are_counted_and_timed() {
    let families = vec![Arc::new(TreeFamily::default()) as _];
    let parts =
        Components { storage: Arc::new(SimStorage::new(1)), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    let database = Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap();
    let keyspace = database.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    let insert = |i: u32| keyspace.insert(i.wrapping_mul(0x9E37_79B1).to_be_bytes(), [7; 1_000]).unwrap();
    (0..100).for_each(insert);
    assert_eq!(keyspace.stats().writer_delays(), WriterDelays::default());
    (100..20_000).for_each(insert);
    let stats = keyspace.stats();
    let told = stats.writer_delays();
    let WriterDelays { count, total_us, p50_us, p99_us, max_us, .. } = told;
    assert!(count > 0 && p50_us > 0 && p50_us <= p99_us && p99_us <= max_us && max_us <= total_us, "{told:?}");
    // Only waits for write-out delay a writer on a scheduler without threads.
    assert!(count <= stats.counter("writer_stalls").unwrap() && total_us <= max_us * count);
}
