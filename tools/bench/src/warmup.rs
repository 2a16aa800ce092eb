//! Warms a store up before it is measured.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    generator::Plan,
    phase::{Limit, Manner},
    run::{Measured, Run},
    workload::Kind,
};

/// The length of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Warmup {
    /// This many operations.
    Operations(u64),
    /// As many operations as fit into this many seconds.
    Seconds(u32),
    /// Until the device reads of an operation no longer fall.
    Steady,
    /// Every record is read once.
    All,
}

/// A warm-up until the store is steady runs in slices; this many of them make one operation per record.
const SLICES: u64 = 4;
/// Minimum and maximum number of slices.
const LEAST: usize = SLICES as usize;
const MOST: usize = 8 * SLICES as usize;
/// The store is steady if two slices save less than this fraction of the reads of the two slices before them.
const STEADY: f64 = 0.015;
/// Longest warm-up until it is steady.
const LONGEST: Duration = Duration::from_secs(300);

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "steady" => Ok(Warmup::Steady),
            "all" => Ok(Warmup::All),
            _ => {
                let parsed = match text.strip_suffix('s') {
                    Some(seconds) => seconds.parse().map(Warmup::Seconds),
                    None => text.parse().map(Warmup::Operations),
                };
                parsed.map_err(|_| {
                    format!("{text:?} is neither `steady` nor `all` nor a number of operations or of seconds as in 60s")
                })
            }
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Operations(operations) => operations.fmt(f),
            Warmup::Seconds(seconds) => write!(f, "{seconds}s"),
            Warmup::Steady => f.write_str("steady"),
            Warmup::All => f.write_str("all"),
        }
    }
}

impl Run<'_> {
    /// Warms the store up; returns the number of operations. `plan` continues after them.
    pub(crate) fn warm_up(&self, warmup: Warmup, plan: &mut Plan) -> Result<u64> {
        let (all, manner) = (Limit::Operations(self.state.loaded), self.manner());
        let measured = match warmup {
            Warmup::Operations(0) => return Ok(0),
            Warmup::Steady => return self.warm_up_until_steady(plan),
            Warmup::Operations(operations) => self.slice(Limit::Operations(operations), 0, manner, plan)?,
            Warmup::Seconds(seconds) => {
                self.slice(Limit::Time(Duration::from_secs(seconds.into())), 0, manner, plan)?
            }
            Warmup::All => self.slice(all, 0, manner, &mut Plan::Each(Kind::Read))?,
        };
        Ok(measured.outcome.operations)
    }

    fn warm_up_until_steady(&self, plan: &mut Plan) -> Result<u64> {
        let (mut operations, mut spent) = (0, Duration::ZERO);
        let mut reads = Vec::new();
        while reads.len() < MOST && spent < LONGEST && !is_steady(&reads) {
            let manner = Manner { cap: Some(LONGEST - spent), ..self.manner() };
            let slice = Limit::Operations((self.state.loaded / SLICES).max(1));
            let measured = self.slice(slice, reads.len() as u64, manner, plan)?;
            operations += measured.outcome.operations;
            spent += Duration::from_secs_f64(measured.outcome.seconds);
            reads.push(
                measured.device_reads(self.options.store).unwrap_or(0) as f64
                    / measured.outcome.operations.max(1) as f64,
            );
        }
        Ok(operations)
    }

    /// Runs a slice of a warm-up, with its own operations.
    fn slice(&self, limit: Limit, number: u64, manner: Manner, plan: &mut Plan) -> Result<Measured> {
        let measured = self.measure("warm up", plan, limit, manner, 1 + (number << 32))?;
        plan.go_on(measured.outcome.operations);
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
        for text in ["steady", "all", "0", "12345", "60s"] {
            assert_eq!(text.parse::<Warmup>().unwrap().to_string(), text);
        }
        assert!("-1".parse::<Warmup>().unwrap_err().contains("steady") && "-1s".parse::<Warmup>().is_err());
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
