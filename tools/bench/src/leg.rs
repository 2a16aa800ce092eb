//! One of the workloads that follow each other in a store that stays open.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::workload::Workload;

/// A workload, and how many operations of it are measured if it is not as many as of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leg {
    pub(crate) workload: Workload,
    pub(crate) operations: Option<u64>,
}

impl Leg {
    /// As long as the others.
    pub(crate) fn of(workload: Workload) -> Leg {
        Leg { workload, operations: None }
    }

    /// Reads `WORKLOAD` or `WORKLOAD:OPERATIONS`. Adapting takes what it takes.
    pub(crate) fn parse(text: &str) -> Result<Leg, String> {
        let (name, operations) =
            text.split_once(':').map_or((text, None), |(name, operations)| (name, Some(operations)));
        let workload = Workload::from_str(name, false)?;
        let number = |text: &str| text.parse().ok().filter(|operations| *operations > 0);
        match operations.map(number) {
            Some(_) if workload == Workload::Adapt => {
                Err("adapt ends when the store has adapted, and takes no number of operations".to_owned())
            }
            Some(None) => {
                Err(format!("{text:?} is not a workload and, behind a colon, a number of operations above 0"))
            }
            operations => Ok(Leg { workload, operations: operations.flatten() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_are_read() {
        let legs =
            [("c", Workload::C, None), ("update:300", Workload::Update, Some(300)), ("adapt", Workload::Adapt, None)];
        for (text, workload, operations) in legs {
            assert_eq!(Leg::parse(text).unwrap(), Leg { workload, operations });
        }
        for text in ["", "x", "c:", "c:0", "c:-1", "c:1:2", ":5", "adapt:5"] {
            assert!(Leg::parse(text).is_err(), "{text:?}");
        }
    }
}
