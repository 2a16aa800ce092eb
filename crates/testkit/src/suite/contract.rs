//! Random histories beside a model, every answer compared.

use super::{
    Counters, Opener, Verdict, add,
    generate::{Generator, KEYSPACES},
    guarded,
    life::{Halt, Life},
    step::brief,
};
use crate::model::Ending;

pub use super::generate::Shape;

/// Runs the histories of these seeds, and gives what engines have counted.
pub fn run(opener: &dyn Opener, seeds: std::ops::Range<u64>, shape: Shape) -> Verdict<Counters> {
    let mut counters = Counters::new();
    for seed in seeds {
        let what = || format!("{}, contract, seed {seed}, {shape:?}", opener.name());
        add(&mut counters, &guarded(what, || history(opener, seed, shape))?);
    }
    Ok(counters)
}

/// One history; what it leaves is opened once more after a clean end.
fn history(opener: &dyn Opener, seed: u64, shape: Shape) -> Verdict<Counters> {
    let mut life = Life::fresh(opener, seed, &KEYSPACES)?;
    let steps = Generator::of(opener, seed, shape).history();
    for (number, step) in steps.iter().enumerate() {
        life.step(step)
            .map_err(|halt| format!("step {number}, {}: {}", brief(std::slice::from_ref(step)), halt.unexpected()))?;
    }
    let counters = life.counters();
    let (disk, expect) = life.close()?;
    Life::begin(opener, disk, seed, expect, Ending::Closed).map_err(Halt::unexpected)?;
    Ok(counters)
}
