//! Statistics show the delays of writers.

use std::sync::Arc;

use ecotone::{
    Database, Engine, Keyspace, KeyspaceOptions,
    internal::{Components, tree::TreeFamily},
    limits,
};
use ecotone_testkit::sim::{SimClock, SimStorage};

fn number(keyspace: &Keyspace, name: &str) -> u64 {
    keyspace.stats().counters.iter().find(|counter| counter.0 == name).unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn the_delays_of_writers_are_counted_and_timed() {
    let families = vec![Arc::new(TreeFamily::default()) as _];
    let parts =
        Components { storage: Arc::new(SimStorage::new(1)), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    let database = Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap();
    let keyspace = database.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    let insert = |i: u32| keyspace.insert(i.wrapping_mul(0x9E37_79B1).to_be_bytes(), [7; 1_000]).unwrap();
    (0..100).for_each(insert);
    assert_eq!((number(&keyspace, "writer_delays"), number(&keyspace, "writer_delay_max_us")), (0, 0));
    (100..20_000).for_each(insert);
    let [delays, total, p50, p99, max] =
        ["s", "_total_us", "_p50_us", "_p99_us", "_max_us"].map(|end| number(&keyspace, &format!("writer_delay{end}")));
    assert!(delays > 0 && p50 > 0 && p50 <= p99 && p99 <= max && max <= total, "{delays} {p50} {p99} {max} {total}");
    // Only waits for write-out delay a writer on a scheduler without threads.
    assert!(delays <= number(&keyspace, "writer_stalls") && total <= max * delays);
}
