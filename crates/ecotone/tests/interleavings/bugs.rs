//! The crews prove themselves: mistakes that only some schedules show are switched on, and must be noticed.

use ecotone::internal::substrate::bug::{Bug, switch};

use super::{CHECKPOINTS, Crew, READS, REORGANISATION, SCANS, tree, wrong};

/// Runs over different schedules, each of which must notice every bug.
const RUNS: u64 = 3;
/// Schedules of a run and a crew.
const SCHEDULES: u64 = 5_000;

/// The bugs, each with the crew that goes where it is.
const BUGS: [(Bug, &Crew); 7] = [
    (Bug::StaleAdmission, &READS),
    (Bug::StalePage, &SCANS),
    (Bug::KeepPage, &SCANS),
    (Bug::CleanAfterRewrite, &REORGANISATION),
    (Bug::CleanAfterRewrite, &SCANS),
    (Bug::IgnoreInFlight, &CHECKPOINTS),
    (Bug::ApplyDuringInstall, &REORGANISATION),
];

#[test]
fn mistakes_between_threads_are_noticed_in_every_run() {
    let mut missed = Vec::new();
    for (bug, crew) in BUGS {
        for run in 0..RUNS {
            let seeds = run * 1_000_000..run * 1_000_000 + SCHEDULES;
            switch(bug);
            let (noticed, _) = wrong(tree, crew, seeds);
            switch(Bug::None);
            println!("{bug:?}: {}", noticed.as_deref().unwrap_or("not noticed").chars().take(240).collect::<String>());
            missed.extend(noticed.is_none().then_some((bug, run)));
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
