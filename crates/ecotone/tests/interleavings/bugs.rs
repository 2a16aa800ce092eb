//! The crews prove themselves: mistakes that only some schedules show are switched on, and must be noticed.

use std::sync::PoisonError;

use ecotone::internal::substrate::bug::{Bug, switch};

use super::{
    CHECKPOINTS, Crew, Engine, GAPS, NEW_PAGES, READS, REORGANISATION, SCANS, SWITCH,
    adaptive_crews::{MODES, SHAPES, restless},
    hash_crews::{COMPACTION, EVICTION, MERGES, UPDATES, unlogged},
    image,
    lsm_crews::{GETS, with_log},
    tree, wrong,
};

/// Runs over different schedules, each of which must notice every bug.
const RUNS: u64 = 3;
/// Schedules of a run and a crew.
const SCHEDULES: u64 = 5_000;

/// The bugs, each with the engine and the crew that go where it is.
const BUGS: [(Bug, Engine, &Crew); 17] = [
    (Bug::StaleAdmission, tree, &READS),
    (Bug::StalePage, tree, &SCANS),
    (Bug::KeepPage, tree, &SCANS),
    (Bug::CleanAfterRewrite, tree, &REORGANISATION),
    (Bug::CleanAfterRewrite, tree, &SCANS),
    (Bug::UnclaimedPages, tree, &NEW_PAGES),
    (Bug::StaleGap, tree, &GAPS),
    (Bug::UnwatchedGap, with_log, &GAPS),
    (Bug::IgnoreInFlight, tree, &CHECKPOINTS),
    (Bug::StaleAdmission, unlogged, &EVICTION),
    (Bug::SkipSeal, unlogged, &UPDATES),
    (Bug::SkipSeal, unlogged, &MERGES),
    (Bug::BeginBeforeRun, unlogged, &COMPACTION),
    (Bug::StaleAdmission, with_log, &GETS),
    (Bug::StaleAdmission, restless, &SHAPES),
    (Bug::RunBelowSuperseded, restless, &MODES),
    (Bug::MoveBelowSuperseded, restless, &SHAPES),
];

#[test]
fn mistakes_between_threads_are_noticed_in_every_run() {
    let _switching = SWITCH.write().unwrap_or_else(PoisonError::into_inner);
    let mut missed = Vec::new();
    for (bug, engine, crew) in BUGS {
        // Without the bug, which may show in it.
        let image = image(engine, crew.registers);
        for run in 0..RUNS {
            let seeds = run * 1_000_000..run * 1_000_000 + SCHEDULES;
            switch(bug);
            let (noticed, _) = wrong(engine, &image, crew, seeds);
            switch(Bug::None);
            println!("{bug:?}: {}", noticed.as_deref().unwrap_or("not noticed").chars().take(240).collect::<String>());
            missed.extend(noticed.is_none().then_some((bug, run)));
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
