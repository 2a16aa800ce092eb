//! Random histories beside a model, every answer compared.

use super::{
    Opener, Verdict,
    generate::{Generator, KEYSPACES},
    guarded,
    life::{Halt, Life},
    step::brief,
};
use crate::model::Ending;

pub use super::generate::Shape;

/// Runs the histories of these seeds.
pub fn run(opener: &dyn Opener, seeds: std::ops::Range<u64>, shape: Shape) -> Verdict {
    seeds.into_iter().try_for_each(|seed| {
        let what = || format!("{}, contract, seed {seed}, {shape:?}", opener.name());
        guarded(what, || history(opener, seed, shape))
    })
}

/// One history; what it leaves is opened once more after a clean end.
fn history(opener: &dyn Opener, seed: u64, shape: Shape) -> Verdict {
    let mut life = Life::fresh(opener, seed, &KEYSPACES)?;
    let steps = Generator::new(seed, opener.kind(), shape).history();
    for (number, step) in steps.iter().enumerate() {
        life.step(step).map_err(|halt| format!("step {number}, {}: {}", brief(std::slice::from_ref(step)), halt.unexpected()))?;
    }
    let (disk, expect) = life.close()?;
    Life::begin(opener, disk, seed, expect, Ending::Closed).map(drop).map_err(Halt::unexpected)
}
