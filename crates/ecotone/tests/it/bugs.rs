//! The suites prove themselves: known bugs of the product are switched on, one after the other, and each must be noticed by a suite that knows
//! nothing of it. A switch counts for the whole process, so there is one test, and the other tests are left out of this build.

use ecotone::internal::substrate::bug::{Bug, switch};
use ecotone_testkit::suite::{
    campaign, contract,
    contract::Shape,
    exhaustive::{self, Extent},
};

use crate::{append_only, concurrent::readers_and_scans_miss_nothing_and_see_nothing_old, in_place, store::Simulated, tree};

/// The bugs that histories of one thread show.
const BUGS: [Bug; 15] = [
    Bug::SkipDirSync,
    Bug::RetryFailedSync,
    Bug::LengthBeforeChecksum,
    Bug::AcknowledgeBeforeSync,
    Bug::ReuseSequence,
    Bug::IgnoreIncarnation,
    Bug::SkipWriteAhead,
    Bug::SkipDoubleWrite,
    Bug::FreeSpaceEarly,
    Bug::RecycleLogEarly,
    Bug::WatermarkTooHigh,
    Bug::DropTombstone,
    Bug::SkipBatchTail,
    Bug::SkipRecoverySync,
    Bug::SkipRepairSync,
];

/// The bugs that need threads.
const RACES: [Bug; 1] = [Bug::CleanAfterRewrite];
/// Runs of the suite with threads, which is no function of a seed.
const RUNS: usize = 5;

const SHORT: Shape = Shape { steps: 60, keys: 24, batch: 6, fill_log: false, keyspaces: true };
const WIDE: Shape = Shape { steps: 40, keys: 400, batch: 120, fill_log: true, keyspaces: true };

/// Runs the suites until one notices something.
fn noticed(simulated: &Simulated) -> Result<(), String> {
    exhaustive::run(simulated, Extent { length: 3, one_in: 9, interrupt_one_in: 80 })?;
    contract::run(simulated, 1..20, SHORT)?;
    campaign::run(simulated, 1, 250, SHORT)?;
    campaign::run(simulated, 1, 700, WIDE)?;
    Ok(())
}

/// Runs the suite with threads until it notices something.
fn noticed_by_threads() -> Result<(), String> {
    let run = |_| {
        std::panic::catch_unwind(readers_and_scans_miss_nothing_and_see_nothing_old).map_err(|_| "readers and scans".to_owned())
    };
    (0..RUNS).try_for_each(run)
}

/// What notices a bug, and how.
fn answer(bug: Bug) -> Option<String> {
    switch(bug);
    let answer = match RACES.contains(&bug) {
        true => noticed_by_threads().err(),
        false => [tree(), append_only(), in_place()].iter().find_map(|simulated| noticed(simulated).err()),
    };
    switch(Bug::None);
    answer
}

#[test]
fn every_known_bug_is_noticed() {
    // The panics that bugs lead to are answers here, not failures.
    std::panic::set_hook(Box::new(|_| {}));
    let only = std::env::var("ECOTONE_BUG").ok();
    let wanted = |bug: &Bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"));
    let mut missed = Vec::new();
    for bug in BUGS.into_iter().chain(RACES).filter(wanted) {
        match answer(bug) {
            Some(answer) => println!("{bug:?}: {}", answer.chars().take(400).collect::<String>()),
            None => missed.push(bug),
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "no suite noticed {missed:?}");
}
