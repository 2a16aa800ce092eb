//! The suites prove themselves: known bugs of the product are switched on, one after the other, and the general suites
//! must notice each. A switch applies to the whole process, so there is one test, and the other tests are left out of
//! this build.
//!
//! A bug noticed once may have been noticed by luck. So there are three runs over different histories, each with a
//! third of the effort, and every run must notice the bug.

use std::time::Duration;

use ecotone::internal::substrate::bug::{Bug, switch};
use ecotone_testkit::suite::{
    campaign::{self, Fill},
    concurrent, contract,
    contract::Shape,
    exhaustive::{self, Extent},
    interleave,
};

use crate::{adaptive, append_only, busy, in_place, liveness, lsm, smaller_budget, store::Simulated, tree};

/// `IgnoreIncarnation` is left to the log's own tests (`log_bugs` of the substrate). A write blanks the rest of its
/// page, so only a page torn by a crash brings a record of an earlier session to the end of the log. The histories of
/// keyspaces are too few for that.
const BUGS: [Bug; 19] = [
    Bug::SkipDirSync,
    Bug::RetryFailedSync,
    Bug::LengthBeforeChecksum,
    Bug::AcknowledgeBeforeSync,
    Bug::ReuseSequence,
    Bug::SkipWriteAhead,
    Bug::SkipDoubleWrite,
    Bug::FreeSpaceEarly,
    Bug::RecycleLogEarly,
    Bug::WatermarkTooHigh,
    Bug::DropTombstone,
    Bug::SkipBatchTail,
    Bug::SkipRecoverySync,
    Bug::SkipRepairSync,
    Bug::StaleAdmission,
    Bug::StalePage,
    Bug::KeepPage,
    Bug::CleanAfterRewrite,
    Bug::SilentInFlight,
];

/// Bugs on a hash keyspace: its own, and some of the shared code. `SkipWriteAhead` does no harm there: the record that
/// names a page or a run lies in the log behind the writes in it, or in a manifest, before which the log is synced.
const ON_HASH: [Bug; 10] = [
    Bug::FreeSpaceEarly,
    Bug::RecycleLogEarly,
    Bug::WatermarkTooHigh,
    Bug::DropTombstone,
    Bug::SkipTableSync,
    Bug::DurableBeforeSync,
    Bug::ElideTombstone,
    Bug::SupersedeUnsynced,
    Bug::PunchNeighbour,
    Bug::ReportedTailCopy,
];

/// Bugs on an lsm keyspace: its tables share code with the runs of a hash keyspace, and the log is common to all
/// engines.
const ON_LSM: [Bug; 6] = [
    Bug::FreeSpaceEarly,
    Bug::RecycleLogEarly,
    Bug::WatermarkTooHigh,
    Bug::SkipTableSync,
    Bug::SkipWriteAhead,
    Bug::SilentMerge,
];

/// Bugs on an adaptive keyspace: its own, and some of the code shared by tables and pages.
const ON_ADAPTIVE: [Bug; 7] = [
    Bug::RunBelowSuperseded,
    Bug::MoveBelowSuperseded,
    Bug::FreeSpaceEarly,
    Bug::SkipTableSync,
    Bug::SkipWriteAhead,
    Bug::DropTombstone,
    Bug::ReportedCopy,
];

/// Bugs that the threads of `concurrent` must notice too, under any schedule.
const SEEN_BY_THREADS: [Bug; 4] =
    [Bug::AcknowledgeBeforeSync, Bug::SkipBatchTail, Bug::DropTombstone, Bug::CleanAfterRewrite];

/// Bugs that make calls wait forever, each with an engine on which it shows.
const FOR_EVER: [(Bug, &str); 2] = [(Bug::KeepPlace, "tree"), (Bug::CallUnderPin, "hash")];

/// Runs over different histories. Each run must notice every bug.
const RUNS: u64 = 3;
/// Distance between the first seeds of two runs.
const APART: u64 = 1_000_000;

const SHORT: Shape = Shape { steps: 60, keys: 24, batch: 6, fill_log: Fill::Never, keyspaces: true };
const WIDE: Shape = Shape { steps: 40, keys: 400, batch: 120, fill_log: Fill::Sometimes, keyspaces: true };
/// Few keys are written so often that records change in place before they are compacted.
const REWRITTEN: Shape = Shape { steps: 200, keys: 150, batch: 100, fill_log: Fill::Never, keyspaces: false };
const FULL: Shape = Shape { steps: 8, keys: 24, batch: 6, fill_log: Fill::Always, keyspaces: false };
const CONCURRENT: concurrent::Extent =
    concurrent::Extent { sessions: 5, threads: 4, calls: 150, registers: 24, cold: 2_000 };
const INTERLEAVED: interleave::Shape = interleave::Shape { steps: 400, registers: 8 };

/// The first seed of a run. `ECOTONE_SEED` shifts the seeds of all runs.
fn first_seed(run: u64) -> u64 {
    std::env::var("ECOTONE_SEED").map_or(1, |seed| seed.parse().expect("a number")) + run * APART
}

/// Runs the suites on ordered engines until one notices the bug.
fn noticed(run: u64) -> Result<(), String> {
    let first = first_seed(run);
    // Interleaving mostly notices a bug at once, so its run may be short.
    interleave::run(&tree(), first..first + 15, INTERLEAVED)?;
    [tree(), append_only(), in_place()].iter().try_for_each(|simulated| noticed_on(simulated, first))?;
    interleave::run(&tree(), first + 15..first + 150, INTERLEAVED).map(drop)
}

fn noticed_on(simulated: &Simulated, first: u64) -> Result<(), String> {
    exhaustive::run(simulated, Extent { length: 3, one_in: 27, first: (first % 27) as usize, interrupt_one_in: 80 })?;
    contract::run(simulated, first..first + 7, SHORT)?;
    campaign::run(simulated, first, 180, SHORT)?;
    campaign::run(simulated, first, 16, FULL)?;
    campaign::run(simulated, first, 234, WIDE)?;
    Ok(())
}

/// Runs the suites on a hash keyspace until one notices the bug.
fn noticed_on_hash(bug: Bug, run: u64) -> Result<(), String> {
    if bug == Bug::ReportedTailCopy {
        // Only unlogged keyspaces append records again.
        let (unlogged, first) = (busy().unlogged(), first_seed(run));
        contract::run(&unlogged, first..first + 30, REWRITTEN)?;
    }
    noticed_on_tables(&busy(), bug, first_seed(run))
}

/// Runs the suites on an lsm keyspace until one notices the bug.
fn noticed_on_lsm(bug: Bug, run: u64) -> Result<(), String> {
    noticed_on_tables(&lsm(), bug, first_seed(run))
}

fn noticed_on_tables(simulated: &Simulated, bug: Bug, first: u64) -> Result<(), String> {
    if bug == Bug::RecycleLogEarly {
        // One in four histories that fill the log loses what it needs of it, and hardly any other: the others would
        // keep this waiting.
        campaign::run(simulated, first, 240, FULL)?;
    }
    contract::run(simulated, first..first + 7, SHORT)?;
    contract::run(simulated, first..first + 7, WIDE)?;
    campaign::run(simulated, first, 84, SHORT)?;
    campaign::run(simulated, first, 16, FULL)?;
    campaign::run(simulated, first, 160, WIDE)?;
    Ok(())
}

/// Runs the suites on an adaptive keyspace until one notices the bug.
fn noticed_on_adaptive(run: u64) -> Result<(), String> {
    let (first, adaptive) = (first_seed(run), adaptive());
    contract::run(&adaptive, first..first + 7, SHORT)?;
    contract::run(&adaptive, first..first + 7, WIDE)?;
    campaign::run(&adaptive, first, 84, SHORT)?;
    campaign::run(&adaptive, first, 160, WIDE)?;
    Ok(())
}

fn noticed_by_threads() -> Result<(), String> {
    concurrent::run(&tree().workers(2), 1..41, CONCURRENT).map(drop)
}

/// The answer of each run of these suites: what noticed the bug.
fn answers(bug: Bug, suites: impl Fn(u64) -> Result<(), String> + Sync) -> Vec<Option<String>> {
    switch(bug);
    let answers = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..RUNS)
            .map(|run| {
                scope.spawn({
                    let suites = &suites;
                    move || suites(run).err()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("the suites catch panics")).collect()
    });
    switch(Bug::None);
    answers
}

/// The answer of the suite of threads.
fn answer_of_threads(bug: Bug) -> Option<String> {
    switch(bug);
    let answer = noticed_by_threads().err();
    switch(Bug::None);
    answer
}

/// Whether an endless wait is noticed, in a quarter of the usual time.
fn noticed_by_time(engine: &'static str, run: u64) -> Result<(), String> {
    let bounds = liveness::Bounds { call: Duration::from_secs(5), episode: Duration::from_secs(60) };
    liveness::run(engine, first_seed(run)..first_seed(run) + 4, bounds)
}

/// Whether a wait for work that no thread does is noticed.
fn noticed_by_pace(_: u64) -> Result<(), String> {
    smaller_budget::after_a_close("lsm")
}

#[test]
fn every_known_bug_is_noticed_in_every_run() {
    // Panics caused by bugs are answers here, not failures.
    std::panic::set_hook(Box::new(|_| {}));
    let only = std::env::var("ECOTONE_BUG").ok();
    let wanted = |bug: &Bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"));
    let mut missed = Vec::new();
    let mut judge = |bug: Bug, of: &str, answers: Vec<Option<String>>| {
        println!("{bug:?}{of}: noticed in {} of {} runs", answers.iter().flatten().count(), answers.len());
        for answer in &answers {
            let shown =
                answer.as_ref().map_or("not noticed".into(), |answer| answer.chars().take(240).collect::<String>());
            println!("    {}", shown.replace('\n', " "));
        }
        missed.extend(answers.iter().any(Option::is_none).then_some(bug));
    };
    BUGS.into_iter().filter(wanted).for_each(|bug| judge(bug, "", answers(bug, noticed)));
    SEEN_BY_THREADS
        .into_iter()
        .filter(wanted)
        .for_each(|bug| judge(bug, " among threads", vec![answer_of_threads(bug)]));
    ON_HASH
        .into_iter()
        .filter(wanted)
        .for_each(|bug| judge(bug, " on a hash keyspace", answers(bug, |run| noticed_on_hash(bug, run))));
    ON_LSM
        .into_iter()
        .filter(wanted)
        .for_each(|bug| judge(bug, " on an lsm keyspace", answers(bug, |run| noticed_on_lsm(bug, run))));
    ON_ADAPTIVE
        .into_iter()
        .filter(wanted)
        .for_each(|bug| judge(bug, " on an adaptive keyspace", answers(bug, noticed_on_adaptive)));
    for (bug, engine) in FOR_EVER.into_iter().filter(|(bug, _)| wanted(bug)) {
        judge(bug, " by time", answers(bug, |run| noticed_by_time(engine, run)));
    }
    if wanted(&Bug::PaceForNobody) {
        judge(Bug::PaceForNobody, " by pace", answers(Bug::PaceForNobody, noticed_by_pace));
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "some run did not notice {missed:?}");
}
