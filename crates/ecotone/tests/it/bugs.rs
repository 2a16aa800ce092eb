//! The suites prove themselves: known bugs of the product are switched on, one after the other, and each must be noticed by a suite that knows
//! nothing of it. A switch counts for the whole process, so there is one test, and the other tests are left out of this build.

use ecotone::internal::substrate::bug::{Bug, switch};
use ecotone_testkit::suite::{
    campaign, contract,
    contract::Shape,
    exhaustive::{self, Extent},
};

use crate::{append_only, in_place, store::Simulated, tree};

/// The bugs that histories of one thread can show. The others need two threads at once and are left to the tests of the parts.
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

#[test]
fn every_known_bug_is_noticed() {
    // The panics that bugs lead to are answers here, not failures.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    let only = std::env::var("ECOTONE_BUG").ok();
    for bug in BUGS.into_iter().filter(|bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"))) {
        switch(bug);
        let answer = [tree(), append_only(), in_place()].iter().find_map(|simulated| noticed(simulated).err());
        switch(Bug::None);
        match answer {
            Some(answer) => println!("{bug:?}: {}", answer.chars().take(400).collect::<String>()),
            None => missed.push(bug),
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "no suite noticed {missed:?}");
}
