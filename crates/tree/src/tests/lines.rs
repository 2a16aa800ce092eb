//! Placement lines that do not match their pages, as an attacker could write them into an index: well-formed, but for
//! other keys.

use std::{
    ops::Bound,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use ecotone_engine::{contract::Ordered, remaining_range::Direction};
use ecotone_substrate::{Error, model::Line};

use super::fixture::{Fixture, Records};
use crate::{
    Tree, TreeOptions,
    index::{IndexEdit, Placement, Segment},
};

fn records() -> Records {
    let key = |number: u32| [&b"prefix "[..], &(number * number).to_be_bytes()].concat();
    (0..4_000).map(|number| (key(number), Some(vec![number as u8; 60]))).collect()
}

/// Lines that differ from this one, and other lines for the same keys.
fn changed(skip: u16, line: Line) -> Vec<Placement> {
    let (slope, intercept) = (line.slope(), line.intercept());
    let lines = [
        (skip, 0.0, 0.0),
        (skip, 0.0, 100.0),
        (skip, slope * 2.0, intercept),
        (skip, slope / 2.0, intercept),
        (skip, slope, intercept + 1.0),
        (skip, slope, intercept - 1.0),
        (skip + 1, slope, intercept),
        (skip - 1, slope, intercept),
        (0, slope, intercept),
        (100, slope, intercept),
    ];
    let placement = |(skip, slope, intercept)| Placement::Line { skip, line: Line::new(slope, intercept).unwrap() };
    lines.map(placement).to_vec()
}

fn replace(tree: &Tree, lower: &[u8], segment: Segment) {
    let index = &tree.store.index;
    let change =
        IndexEdit { remove: vec![lower.to_vec()], insert: vec![(lower.to_vec(), segment)], ..IndexEdit::default() };
    index.install(index.prepare(&change).unwrap());
}

/// Scans the tree; returns the number of records and the result. A scan that does not end fails the test.
fn scan(tree: &Arc<Tree>, direction: Direction) -> Result<usize, Error> {
    let (tree, (ended, end)) = (tree.clone(), mpsc::channel());
    #[expect(clippy::disallowed_methods, reason = "a scope waits for threads that never end")]
    thread::spawn(move || {
        let (mut cursor, mut passed) = (tree.cursor((Bound::Unbounded, Bound::Unbounded)), 0);
        let mut step = || match direction {
            Direction::Up => cursor.next().map(|record| record.is_some()),
            Direction::Down => cursor.next_back().map(|record| record.is_some()),
        };
        let last = loop {
            match step() {
                Ok(true) => passed += 1,
                last => break last.map(|_| passed),
            }
        };
        ended.send(last)
    });
    end.recv_timeout(Duration::from_secs(60)).expect("the scan ends")
}

/// Gets some of the keys. A key that is not where its line says is an error, never reported as absent.
fn get(tree: &Tree, records: &Records) -> Result<(), Error> {
    for (key, expected) in records.iter().step_by(17) {
        let mut value = Vec::new();
        let found = tree.find_in_pages(key, &mut value)?;
        assert_eq!(found.then_some(&value), expected.as_ref(), "{key:?}");
    }
    Ok(())
}

fn is_refused<T>(outcome: Result<T, Error>, passed: impl FnOnce(T)) -> bool {
    match outcome {
        Ok(given) => passed(given),
        Err(Error::Corruption { .. }) => return true,
        Err(other) => panic!("{other}"),
    }
    false
}

#[test]
fn trap_04_gets_and_scans_over_lines_of_other_keys_end_with_an_error() {
    let (fixture, records) = (Fixture::new(1, TreeOptions::default()), records());
    fixture.ingest(&records).unwrap();
    let (mut lines, mut refused, mut missed) = (0, 0, 0);
    for (lower, segment) in fixture.tree.store.index.snapshot().ascend(&[]) {
        let Placement::Line { skip, line } = &segment.placement else { continue };
        lines += 1;
        for placement in changed(*skip, *line) {
            replace(&fixture.tree, &lower, Segment::placed(segment.page, segment.base_count(), placement));
            for direction in [Direction::Up, Direction::Down] {
                let whole = |passed| assert_eq!(passed, records.len());
                refused += usize::from(is_refused(scan(&fixture.tree, direction), whole));
            }
            missed += usize::from(is_refused(get(&fixture.tree, &records), |()| ()));
        }
        replace(&fixture.tree, &lower, segment.clone());
    }
    assert!(
        lines > 0 && refused > 10 * lines && missed > 5 * lines,
        "{refused} scans and {missed} gets, of {lines} lines"
    );
    assert_eq!(scan(&fixture.tree, Direction::Up).unwrap(), records.len());
}
