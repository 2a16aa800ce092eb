//! Lines that are not those of their pages, as somebody writes them into an index who wants harm: sound by their form,
//! and of other keys.

use std::{
    ops::Bound,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use ecotone_substrate::{Error, model::Line};

use super::world::{Records, World};
use crate::{
    engine::Ordered,
    rest::Direction,
    tree::{
        Tree, TreeOptions,
        index::{Change, Placement, Segment},
    },
};

fn records() -> Records {
    let key = |number: u32| [&b"prefix "[..], &(number * number).to_be_bytes()].concat();
    (0..4_000).map(|number| (key(number), Some(vec![number as u8; 60]))).collect()
}

/// Other lines than this, and others of the same keys.
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
    let change = Change { remove: vec![lower.to_vec()], insert: vec![(lower.to_vec(), segment)], ..Change::default() };
    index.install(index.prepare(&change).unwrap());
}

/// How many records a scan gives, and how it ends. One that does not end fails the test.
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

/// Gets some of the keys; one that is not where its line says is an error, never absent.
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
    let (world, records) = (World::new(1, TreeOptions::default()), records());
    world.absorb(&records).unwrap();
    let (mut lines, mut refused, mut missed) = (0, 0, 0);
    for (lower, segment) in world.tree.store.index.snapshot().ascend(&[]) {
        let Placement::Line { skip, line } = &segment.placement else { continue };
        lines += 1;
        for placement in changed(*skip, *line) {
            replace(&world.tree, &lower, Segment::placed(segment.page, segment.base_count(), placement));
            for direction in [Direction::Up, Direction::Down] {
                let whole = |passed| assert_eq!(passed, records.len());
                refused += usize::from(is_refused(scan(&world.tree, direction), whole));
            }
            missed += usize::from(is_refused(get(&world.tree, &records), |()| ()));
        }
        replace(&world.tree, &lower, segment.clone());
    }
    assert!(
        lines > 0 && refused > 10 * lines && missed > 5 * lines,
        "{refused} scans and {missed} gets, of {lines} lines"
    );
    assert_eq!(scan(&world.tree, Direction::Up).unwrap(), records.len());
}
