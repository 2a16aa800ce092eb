//! Runs rounds of stores that all stay open: each is opened and warmed up once, and is suspended while another is
//! measured.

use super::{
    line::{Line, Request},
    machine::{Machine, Observer},
    options::RoundsOptions,
    output,
    parent::{Ending, Running},
    terms::Terms,
};
use crate::{
    error::Result,
    measure::options::{RunOptions, WorkloadStep},
    row::Workload,
};

/// Runs all rows, round by round.
pub(super) fn rows(options: &RoundsOptions, observer: &mut Observer) -> Result<Vec<Line>> {
    if options.row.workloads().any(|workload| workload == Workload::Load) {
        return Err("--workload load begins each round with an empty store, and --stay-open keeps one open".into());
    }
    let rows: Vec<RunOptions> = options.store.iter().map(|store| options.row_of(*store)).collect();
    let titles: Vec<String> = options.store.iter().map(|store| format!("{store}: ")).collect();
    let terms: Vec<Terms<'_>> = rows.iter().zip(&titles).map(|(row, title)| Terms::new(options, row, title)).collect();
    let mut children: Vec<Result<Running<'_>>> = rows.iter().zip(&terms).map(|(row, terms)| warm(row, terms)).collect();
    let rounds = |(number, step)| (1..=options.rounds).map(move |round| (number, step, round));
    let order: Vec<(usize, WorkloadStep, u32)> = options.row.steps().enumerate().flat_map(rounds).collect();
    let machines = measure(&order, &mut children, observer)?;
    let mut endings: Vec<_> = children.into_iter().map(|child| end(child, order.len()).into_iter()).collect();
    let mut lines = Vec::new();
    for ((number, step, round), machines) in order.into_iter().zip(machines) {
        for ((row, machine), endings) in rows.iter().zip(machines).zip(&mut endings) {
            let request = Request::new(&RunOptions { workload: step.workload, ..row.clone() });
            let ending = endings.next().expect("there is one for each round");
            let line = Line::new(request, round, ending, machine).of_leg(number);
            output::row(options, &line)?;
            lines.push(line);
        }
    }
    Ok(lines)
}

/// A child whose store is open, warm and suspended.
fn warm<'a>(row: &RunOptions, terms: &'a Terms<'a>) -> Result<Running<'a>> {
    let mut child = Running::start(row, terms)?;
    child.wait();
    child.hold(true)?;
    Ok(child)
}

/// Measures all rounds; returns the machine's states around each row.
fn measure(
    order: &[(usize, WorkloadStep, u32)],
    children: &mut [Result<Running<'_>>],
    observer: &mut Observer,
) -> Result<Vec<Vec<Machine>>> {
    let (mut before, mut machines) = (observer.look(), Vec::new());
    for (_, step, _) in order {
        let mut round = Vec::new();
        for child in &mut *children {
            if let Ok(child) = child {
                child.hold(false)?;
                child.ask(*step)?;
                child.wait();
                child.hold(true)?;
            }
            let after = observer.look();
            round.push(Machine { before, after });
            before = after;
        }
        machines.push(round);
    }
    Ok(machines)
}

/// Closes a store; returns the outcomes of its rounds.
fn end(child: Result<Running<'_>>, rounds: usize) -> Vec<Ending> {
    let ended = child.and_then(|child| {
        child.hold(false)?;
        child.end(rounds)
    });
    ended.unwrap_or_else(|error| vec![Ending::failure(&error); rounds])
}
