//! The subcommand `run`: rounds of rows. Each store and round has its own child process, so that peak memory, I/O, a
//! hang and a lack of memory are attributed to one row.

mod cgroup;
mod child;
mod line;
mod machine;
mod message;
mod parent;
mod summary;
mod table;
mod together;
mod watch;

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

pub(crate) use self::{child::row, message::Message};
use self::{
    line::{Line, Request},
    machine::{Machine, Observer, State},
    message::Status,
    parent::{Ending, Running, Terms},
    summary::Summary,
};
use crate::{
    cli::{Ceiling, RowsOptions, RunOptions},
    error::Result,
    state::Directory,
    step::WorkloadStep,
    store,
    workload::Workload,
};

/// Memory of the harness. For a store that relies on the page cache, the cgroup's limit is the budget plus this.
const HARNESS: u64 = 16 << 20;
/// Memory that a process may use above twice the budget, for a store with its own cache. Such a store bypasses the page
/// cache, so memory above the budget saves it no reads. Its row reports the memory used; the limit only stops a store
/// that would take everything.
const MARGIN: u64 = 64 << 20;

/// Runs `run` and prints its results; the exit code says whether all rows ended well.
pub(crate) fn run(options: &RowsOptions) -> Result<ExitCode> {
    if let Some(twice) =
        options.store.iter().enumerate().find(|(number, store)| options.store[..*number].contains(store))
    {
        return Err(format!("--store names {} twice; --rounds repeats the measurement", twice.1).into());
    }
    let mut observer = Observer::new(&options.row.dir);
    let lines =
        if options.stay_open { together::rows(options, &mut observer)? } else { in_turn(options, &mut observer)? };
    for lines in lines.chunk_by(|one, other| one.leg == other.leg) {
        conclude(options, lines)?;
    }
    let all_well = lines.iter().all(|line| line.status == Status::Ok);
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the rows one by one, each in its own process.
fn in_turn(options: &RowsOptions, observer: &mut Observer) -> Result<Vec<Line>> {
    let (mut state, mut lines, mut broken) = (observer.look(), Vec::new(), Broken::new());
    for round in 1..=options.rounds {
        for store in &options.store {
            let line = match broken.get(store) {
                Some(failure) => repeat(options, *store, round, failure, state),
                None => measure(options, *store, round, &mut state, observer),
            };
            if line.status != Status::Ok && Directory::open(&row_options(options, *store).dir)?.is_unfinished() {
                broken.entry(*store).or_insert_with(|| Failure {
                    round,
                    status: line.status,
                    error: line.error.clone(),
                });
            }
            report(options, &line)?;
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Stores whose load failed; another round would fail in the same way.
type Broken = BTreeMap<store::Kind, Failure>;

/// The first row that failed.
struct Failure {
    round: u32,
    status: Status,
    error: Option<String>,
}

/// The row of a store that failed in an earlier round.
fn repeat(options: &RowsOptions, store: store::Kind, round: u32, failure: &Failure, state: State) -> Line {
    let error = format!("as in round {}: {}", failure.round, failure.error.as_deref().unwrap_or_default());
    let ending = Ending { result: Err((failure.status, error)), cgroup_limit: None, cgroup_peak: None };
    Line::new(Request::new(&row_options(options, store)), round, ending, Machine { before: state, after: state })
}

/// Measures one row. `state` is the machine's state before the row, and becomes the one after it.
fn measure(options: &RowsOptions, store: store::Kind, round: u32, state: &mut State, observer: &mut Observer) -> Line {
    let row = row_options(options, store);
    let title = if is_single(options) { String::new() } else { format!("{store} {round}/{}: ", options.rounds) };
    let terms = terms(options, &row, &title);
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

fn terms<'a>(options: &RowsOptions, row: &RunOptions, title: &'a str) -> Terms<'a> {
    Terms {
        title,
        memory: memory_limit(options, row.store),
        must_limit: options.cgroup_memory.is_some(),
        hang: Duration::from_secs_f64(options.hang_seconds + between_calls(row)),
    }
}

/// With several stores, each has its own directory.
fn row_options(options: &RowsOptions, store: store::Kind) -> RunOptions {
    let mut row = options.row.clone();
    row.store = store;
    if options.store.len() > 1 {
        row.dir.push(store.to_string());
    }
    row
}

/// Seconds between calls, if the row has a rate.
fn between_calls(row: &RunOptions) -> f64 {
    row.rate.map_or(0.0, |rate| f64::from(row.batch) / rate)
}

fn memory_limit(options: &RowsOptions, store: store::Kind) -> Option<u64> {
    match options.cgroup_memory {
        Some(Ceiling::None) => None,
        Some(Ceiling::Bytes(bytes)) => Some(bytes),
        None if store.uses_page_cache() => Some(options.row.memory.saturating_add(HARNESS)),
        None => Some(options.row.memory.saturating_mul(2).saturating_add(MARGIN)),
    }
}

/// Empties the directory before a load, removing the load of the previous round.
fn empty(row: &RunOptions) -> Result<()> {
    Directory::open(&row.dir)?.clear()
}

fn is_single(options: &RowsOptions) -> bool {
    options.store.len() == 1 && options.rounds == 1
}

/// Prints a row when it is done.
fn report(options: &RowsOptions, line: &Line) -> Result<()> {
    if let Some(error) = &line.error {
        let place =
            if is_single(options) { String::new() } else { format!("{}, round {}: ", line.store(), line.round) };
        eprintln!("error: {place}{error}");
    }
    if options.json {
        println!("{}", serde_json::to_string(line)?);
    } else if let Some(row) = line.row().filter(|_| is_single(options)) {
        println!("{}", table::row(row, line.ideal()));
    }
    Ok(())
}

/// Prints the summaries of all rows; skipped for a single row.
fn conclude(options: &RowsOptions, lines: &[Line]) -> Result<()> {
    if is_single(options) {
        return Ok(());
    }
    let workload = lines.first().map_or(options.row.workload, Line::workload);
    let request = |store: &store::Kind| Request { workload, ..Request::new(&row_options(options, *store)) };
    let summaries: Vec<Summary> = options.store.iter().map(|store| Summary::new(request(store), lines)).collect();
    if options.json {
        for summary in &summaries {
            println!("{}", serde_json::to_string(summary)?);
        }
    } else {
        if !options.row.then.is_empty() {
            println!("workload {}", table::name(&workload));
        }
        println!("{}", table::comparison(&summaries, lines));
        summaries.iter().filter_map(Summary::warning).for_each(|warning| println!("{warning}"));
    }
    Ok(())
}
