//! How long a store is warmed up before it is measured.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    generator::Plan,
    phase::{Limit, Manner},
    run::{Measured, Run},
    workload::Kind,
};

/// The operations before a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Warmup {
    /// So many.
    Operations(u64),
    /// Until the device reads of an operation no longer fall.
    Steady,
    /// Every record is read once.
    All,
}

/// Slices in which a warm-up until it is steady goes, for each operation a record.
const SLICES: u64 = 4;
/// Fewest and most slices.
const LEAST: usize = SLICES as usize;
const MOST: usize = 8 * SLICES as usize;
/// Reads that two slices together save against the two before them, as a part of these, below which it is steady.
const STEADY: f64 = 0.015;
/// Longest warm-up until it is steady.
const LONGEST: Duration = Duration::from_secs(300);

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "steady" => Ok(Warmup::Steady),
            "all" => Ok(Warmup::All),
            _ => text
                .parse()
                .map(Warmup::Operations)
                .map_err(|_| format!("{text:?} is neither `steady` nor `all` nor a number of operations")),
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Operations(operations) => operations.fmt(f),
            Warmup::Steady => f.write_str("steady"),
            Warmup::All => f.write_str("all"),
        }
    }
}

impl Run<'_> {
    /// Warms the store up; gives the operations that it took. `plan` goes on behind them.
    pub(crate) fn warm_up(&self, warmup: Warmup, plan: &mut Plan) -> Result<u64> {
        match warmup {
            Warmup::Operations(0) => Ok(0),
            Warmup::Operations(operations) => {
                self.slice(operations, 0, self.manner(), plan).map(|measured| measured.outcome.operations)
            }
            Warmup::Steady => self.warm_up_until_steady(plan),
            Warmup::All => {
                self.slice(self.state.loaded, 0, self.manner(), &mut Plan::Each(Kind::Read)).map(|all| all.outcome.operations)
            }
        }
    }

    fn warm_up_until_steady(&self, plan: &mut Plan) -> Result<u64> {
        let (mut operations, mut spent) = (0, Duration::ZERO);
        let mut reads = Vec::new();
        while reads.len() < MOST && spent < LONGEST && !is_steady(&reads) {
            let manner = Manner { cap: Some(LONGEST - spent), ..self.manner() };
            let measured = self.slice((self.state.loaded / SLICES).max(1), reads.len() as u64, manner, plan)?;
            operations += measured.outcome.operations;
            spent += Duration::from_secs_f64(measured.outcome.seconds);
            reads.push(measured.device_reads(self.options.store).unwrap_or(0) as f64 / measured.outcome.operations.max(1) as f64);
        }
        Ok(operations)
    }

    /// Carries out a part of a warm-up, with operations of its own.
    fn slice(&self, operations: u64, number: u64, manner: Manner, plan: &mut Plan) -> Result<Measured> {
        let measured = self.measure("warm up", plan, Limit::Operations(operations), manner, 1 + (number << 32))?;
        if let Plan::Traced(_, _, start) = plan {
            *start += measured.outcome.operations;
        }
        Ok(measured)
    }
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
    fn texts_are_read_and_written() {
        for text in ["steady", "all", "0", "12345"] {
            assert_eq!(text.parse::<Warmup>().unwrap().to_string(), text);
        }
        assert!("-1".parse::<Warmup>().unwrap_err().contains("steady"));
    }

    #[test]
    fn what_still_falls_is_not_steady() {
        let falling: Vec<f64> = (0..8).map(|slice| 0.9f64.powi(slice)).collect();
        assert!((0..8).all(|slices| !is_steady(&falling[..slices])));
        assert!(!is_steady(&[0.1, 0.1, 0.1]), "too few to know");
        assert!(is_steady(&[0.9, 0.1, 0.101, 0.099, 0.1]), "only the last four count");
        assert!(is_steady(&[0.0; 4]), "nothing is read at all");
    }
}
