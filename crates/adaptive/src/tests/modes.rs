//! The choice of `Insert::Auto`: whether flushed records go into pages at once or into a run.

use std::{ops::Bound, thread, time::Duration};

use ecotone_engine::contract::{Engine, Hint, Hintable, Maintained, Ordered};
use ecotone_lsm::LsmOptions;
use ecotone_substrate::Seq;
use ecotone_testkit::sim::{Phase, SteppedThread};

use super::fixture::{Fixture, Model, key, step};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

fn put(fixture: &mut Fixture, model: &mut Model, numbers: impl Iterator<Item = u32>, byte: u8) {
    numbers.for_each(|number| fixture.put(model, number, Some(&[byte; 100])));
}

/// All keys in pages.
fn covered(insert: Insert) -> (Fixture, Model) {
    covered_in(Fixture::new(4, AdaptiveOptions { insert, ..AdaptiveOptions::default() }))
}

fn covered_in(mut fixture: Fixture) -> (Fixture, Model) {
    let mut model = Model::new();
    put(&mut fixture, &mut model, 0..KEYS, 0);
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
    (fixture, model)
}

/// Makes so many scans of ten records.
fn scan(fixture: &Fixture, scans: u32) {
    for number in 0..scans {
        let from = number.wrapping_mul(2_654_435_761) % (KEYS - 10);
        let mut cursor = fixture.keyspace.clone().cursor((Bound::Included(key(from)), Bound::Unbounded));
        (0..10).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
    }
}

fn is_pages(fixture: &Fixture) -> bool {
    fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS)).bytes == 0
}

#[test]
fn few_inserts_among_many_scans_go_into_pages_and_a_burst_into_runs() {
    let (mut fixture, mut model) = covered(Insert::Auto);
    for round in 1..=5 {
        scan(&fixture, 1000);
        put(&mut fixture, &mut model, (0..KEYS).skip(round as usize).step_by(100), round);
        fixture.flush();
        assert_eq!((is_pages(&fixture), fixture.stat("records_flushed_to_pages")), (true, 40 * u64::from(round)));
    }
    fixture.expect(&model);
    // Too few scans for the cost of the insert.
    scan(&fixture, 10);
    put(&mut fixture, &mut model, (0..KEYS).step_by(100), 6);
    fixture.flush();
    assert_eq!((is_pages(&fixture), fixture.stat("records_flushed_to_pages")), (false, 200));
    fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
    scan(&fixture, 2000);
    // Without background threads, a writer flushes when two memtables wait.
    put(&mut fixture, &mut model, 0..KEYS, 7);
    assert_eq!(
        (is_pages(&fixture), fixture.stat("records_flushed_to_pages"), fixture.stat("page_flushes_given_up")),
        (false, 200, 0)
    );
    fixture.flush();
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

#[test]
fn scans_of_another_time_count_no_more() {
    let (mut fixture, mut model) = covered(Insert::Auto);
    scan(&fixture, 5000);
    fixture.pass(SECOND);
    for round in 0..2 {
        put(&mut fixture, &mut model, (0..KEYS).step_by(100), round);
        fixture.flush();
    }
    assert_eq!((is_pages(&fixture), fixture.stat("records_flushed_to_pages")), (false, 40));
    fixture.expect(&model);
}

#[test]
fn what_somebody_has_said_comes_first() {
    let all = (Bound::Unbounded, Bound::Unbounded);
    for (hint, expected) in [(Hint::ReadMostly, true), (Hint::Auto, false)] {
        let (mut fixture, mut model) = covered(Insert::Auto);
        fixture.keyspace.hint(&all, hint).unwrap();
        put(&mut fixture, &mut model, (0..KEYS).step_by(100), 1);
        fixture.flush();
        assert_eq!(is_pages(&fixture), expected, "{hint:?}");
        fixture.expect(&model);
    }
    let (mut fixture, mut model) = covered(Insert::Batch);
    scan(&fixture, 5000);
    put(&mut fixture, &mut model, (0..KEYS).step_by(100), 1);
    fixture.flush();
    assert_eq!((is_pages(&fixture), fixture.stat("records_flushed_to_pages")), (false, 0));
    fixture.expect(&model);
}

/// Records that are in pages by then are the same in the run.
#[test]
fn a_flush_into_pages_is_given_up_when_another_memtable_waits() {
    for insert in [Insert::Auto, Insert::Tree] {
        let lsm = LsmOptions::default().memtable(8 << 20);
        let (mut fixture, mut model) =
            covered_in(Fixture::large(4, AdaptiveOptions { lsm, insert, ..AdaptiveOptions::default() }));
        scan(&fixture, 5000);
        // More than one batch of inserts into pages.
        (0..KEYS).step_by(4).for_each(|number| fixture.put(&mut model, number, Some(&[1; 1500])));
        let keyspace = fixture.keyspace.clone();
        thread::scope(|scope| {
            let mut flush = SteppedThread::new(scope, &[Phase::Pages], || keyspace.lsm.flush(Seq::MAX));
            assert!(flush.step().is_none());
            fixture.write(&key(0), Some(b"another"));
            model.insert(key(0), b"another".to_vec());
            fixture.keyspace.begin_flush(Seq::MAX);
            flush.finish().unwrap();
        });
        let given_up = u64::from(insert == Insert::Auto);
        assert_eq!((fixture.stat("page_flushes_given_up"), is_pages(&fixture)), (given_up, given_up == 0));
        fixture.flush();
        fixture.expect(&model);
    }
}
