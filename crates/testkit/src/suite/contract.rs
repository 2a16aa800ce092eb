//! Random histories beside a model; every answer is compared.

pub use super::generate::Shape;
use super::{
    Counters, Opener, Verdict, add,
    generate::{Generator, KEYSPACES},
    guarded,
    session::{Interruption, Session},
    step::brief,
};
use crate::model::Ending;

/// Runs the histories of these seeds, and gives the counters of the engines.
pub fn run(opener: &dyn Opener, seeds: std::ops::Range<u64>, shape: Shape) -> Verdict<Counters> {
    let mut counters = Counters::new();
    for seed in seeds {
        let what = || format!("{}, contract, seed {seed}, {shape:?}", opener.name());
        add(&mut counters, &guarded(what, || history(opener, seed, shape))?);
        if seed.is_multiple_of(PURGED) {
            guarded(what, || purged(opener, seed, shape))?;
        }
    }
    Ok(counters)
}

/// One in so many histories runs again and ends with a purge.
const PURGED: u64 = 3;

/// Runs one history, and removes all superseded versions: each must have been reported.
fn purged(opener: &dyn Opener, seed: u64, shape: Shape) -> Verdict {
    let mut session = Session::fresh(opener, seed, &KEYSPACES)?;
    session.reports_once = true;
    session.run(&Generator::of(opener, seed, shape).history()).map_err(Interruption::unexpected)?;
    session.purge().map_err(Interruption::unexpected)?;
    session.close().map(drop)
}

/// Runs one history, and opens its database once more after a clean end.
fn history(opener: &dyn Opener, seed: u64, shape: Shape) -> Verdict<Counters> {
    let mut session = Session::fresh(opener, seed, &KEYSPACES)?;
    session.reports_once = true;
    let steps = Generator::of(opener, seed, shape).history();
    for (number, step) in steps.iter().enumerate() {
        session
            .step(step)
            .map_err(|halt| format!("step {number}, {}: {}", brief(std::slice::from_ref(step)), halt.unexpected()))?;
    }
    let counters = session.counters();
    let (disk, expect) = session.close()?;
    Session::begin(opener, disk, seed, expect, Ending::Closed).map_err(Interruption::unexpected)?;
    Ok(counters)
}
