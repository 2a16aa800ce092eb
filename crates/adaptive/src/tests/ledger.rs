//! The read checker finds a wrong state of pages and runs even if the read value is right.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
};

use ecotone_engine::contract::Get;

use super::fixture::{ALL, Fixture, key};
use crate::AdaptiveOptions;

/// A key in pages, in a visible run above them, and in the memtable.
fn layered() -> Fixture {
    let mut fixture = Fixture::new(1, AdaptiveOptions::default());
    fixture.write(&key(1), Some(b"1"));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(0), &key(9)).unwrap();
    fixture.write(&key(1), Some(b"2"));
    fixture.flush();
    fixture.write(&key(1), Some(b"3"));
    fixture
}

/// The next conversion would replace a newer page record by an older one of a run.
#[test]
fn pages_are_no_newer_than_a_run_that_counts() {
    let reads: [fn(&Fixture); 4] = [
        |fixture| assert_eq!(fixture.keyspace.get(&key(1)).unwrap().as_deref(), Some(&b"3"[..])),
        |fixture| assert_eq!(fixture.multi_get(&[key(1)]), [Some(b"3".to_vec())]),
        |fixture| assert_eq!(fixture.collect(ALL, false), [(key(1), b"3".to_vec())]),
        |fixture| assert_eq!(fixture.collect(ALL, true), [(key(1), b"3".to_vec())]),
    ];
    for (value, is_right) in [(b"1", true), (b"2", true), (b"3", false)] {
        let fixture = layered();
        let record = (key(1), Some(value.to_vec()));
        fixture.keyspace.tree.ingest(&mut iter::once(Ok(record)), true).unwrap();
        for read in reads {
            assert_eq!(catch_unwind(AssertUnwindSafe(|| read(&fixture))).is_ok(), is_right);
        }
    }
}
