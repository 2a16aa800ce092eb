//! Runs rounds of rows one after the other, each row in its own process.

use std::collections::BTreeMap;

use super::{
    line::{Line, Request},
    machine::{Machine, Observer, State},
    options::RoundsOptions,
    output,
    parent::{Ending, Running},
    terms::Terms,
};
use crate::{
    error::Result,
    measure::{
        options::{RunOptions, WorkloadStep},
        state::Directory,
    },
    row::{Status, StoreKind, Workload},
};

/// Runs the rows one by one, each in its own process.
pub(super) fn rows(options: &RoundsOptions, observer: &mut Observer) -> Result<Vec<Line>> {
    let (mut state, mut lines, mut broken) = (observer.look(), Vec::new(), Broken::new());
    for round in 1..=options.rounds {
        for store in &options.store {
            let line = match broken.get(store) {
                Some(failure) => repeat(options, *store, round, failure, state),
                None => measure(options, *store, round, &mut state, observer),
            };
            if line.status != Status::Ok && Directory::open(&options.row_of(*store).dir)?.is_unfinished() {
                broken.entry(*store).or_insert_with(|| Failure {
                    round,
                    status: line.status,
                    error: line.error.clone(),
                });
            }
            output::row(options, &line)?;
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Stores whose load failed; another round would fail in the same way.
type Broken = BTreeMap<StoreKind, Failure>;

/// The first row that failed.
struct Failure {
    round: u32,
    status: Status,
    error: Option<String>,
}

/// The row of a store that failed in an earlier round.
fn repeat(options: &RoundsOptions, store: StoreKind, round: u32, failure: &Failure, state: State) -> Line {
    let error = format!("as in round {}: {}", failure.round, failure.error.as_deref().unwrap_or_default());
    let ending = Ending { result: Err((failure.status, error)), cgroup_limit: None, cgroup_peak: None };
    Line::new(Request::new(&options.row_of(store)), round, ending, Machine { before: state, after: state })
}

/// Measures one row. `state` is the machine's state before the row, and becomes the one after it.
fn measure(options: &RoundsOptions, store: StoreKind, round: u32, state: &mut State, observer: &mut Observer) -> Line {
    let row = options.row_of(store);
    let title = if options.is_single() { String::new() } else { format!("{store} {round}/{}: ", options.rounds) };
    let terms = Terms::new(options, &row, &title);
    let ready = if round > 1 && row.workload == Workload::Load { empty(&row) } else { Ok(()) };
    let ending = ready.and_then(|()| single(&row, &terms)).unwrap_or_else(|error| Ending::failure(&error));
    let before = std::mem::replace(state, observer.look());
    Line::new(Request::new(&row), round, ending, Machine { before, after: *state })
}

/// Runs a child for one round.
fn single(row: &RunOptions, terms: &Terms<'_>) -> Result<Ending> {
    let mut child = Running::start(row, terms)?;
    child.ask(WorkloadStep::of(row.workload))?;
    Ok(child.end(1)?.remove(0))
}

/// Empties the directory before a load, removing the load of the previous round.
fn empty(row: &RunOptions) -> Result<()> {
    Directory::open(&row.dir)?.clear()
}
