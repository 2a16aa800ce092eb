//! Warms a store up before it is measured.

use std::time::Duration;

use super::{
    limit::{Limit, Manner},
    options::Warmup,
    run::{Measured, Run},
    workload::{generator::Plan, mix::Kind},
};
use crate::error::Result;

/// A warm-up until the store is steady runs in slices; this many of them make one operation per record.
const SLICES: u64 = 4;
/// Minimum and maximum number of slices.
const LEAST: usize = SLICES as usize;
const MOST: usize = 8 * SLICES as usize;
/// The store is steady if two slices save less than this fraction of the reads of the two slices before them.
const STEADY: f64 = 0.015;
/// Longest warm-up until it is steady.
const LONGEST: Duration = Duration::from_secs(300);

/// Warms the store up; returns the number of operations. `plan` continues after them.
pub(crate) fn warm_up(run: &Run<'_>, warmup: Warmup, plan: &mut Plan) -> Result<u64> {
    let (all, manner) = (Limit::Operations(run.state.loaded), run.manner());
    let measured = match warmup {
        Warmup::Operations(0) => return Ok(0),
        Warmup::Steady => return warm_up_until_steady(run, plan),
        Warmup::Operations(operations) => slice(run, Limit::Operations(operations), 0, manner, plan)?,
        Warmup::Seconds(seconds) => slice(run, Limit::Time(Duration::from_secs(seconds.into())), 0, manner, plan)?,
        Warmup::All => slice(run, all, 0, manner, &mut Plan::Each(Kind::Read))?,
    };
    Ok(measured.outcome.operations)
}

fn warm_up_until_steady(run: &Run<'_>, plan: &mut Plan) -> Result<u64> {
    let (mut operations, mut spent) = (0, Duration::ZERO);
    let mut reads = Vec::new();
    while reads.len() < MOST && spent < LONGEST && !is_steady(&reads) {
        let manner = Manner { cap: Some(LONGEST - spent), ..run.manner() };
        let limit = Limit::Operations((run.state.loaded / SLICES).max(1));
        let measured = slice(run, limit, reads.len() as u64, manner, plan)?;
        operations += measured.outcome.operations;
        spent += Duration::from_secs_f64(measured.outcome.seconds);
        reads.push(
            measured.device_reads(run.options.store).unwrap_or(0) as f64 / measured.outcome.operations.max(1) as f64,
        );
    }
    Ok(operations)
}

/// Runs a slice of a warm-up, with its own operations.
fn slice(run: &Run<'_>, limit: Limit, number: u64, manner: Manner, plan: &mut Plan) -> Result<Measured> {
    let measured = run.measure("warm up", plan, limit, manner, 1 + (number << 32))?;
    plan.go_on(measured.outcome.operations);
    Ok(measured)
}

/// Whether the last two slices read hardly less than the two before them.
fn is_steady(reads: &[f64]) -> bool {
    let Some([.., a, b, c, d]) = reads.len().ge(&LEAST).then_some(reads) else { return false };
    c + d >= (1.0 - STEADY) * (a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_falls_is_not_steady() {
        let falling: Vec<f64> = (0..8).map(|slice| 0.9f64.powi(slice)).collect();
        assert!((0..8).all(|slices| !is_steady(&falling[..slices])));
        assert!(!is_steady(&[0.1, 0.1, 0.1]), "too few to know");
        assert!(is_steady(&[0.9, 0.1, 0.101, 0.099, 0.1]), "only the last four count");
        assert!(is_steady(&[0.0; 4]), "nothing is read at all");
    }
}
