//! One workload in the sequence that runs in a store that stays open.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::row::Workload;

/// A workload, and its own number of operations if it differs from the others'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkloadStep {
    pub(crate) workload: Workload,
    pub(crate) operations: Option<u64>,
}

impl WorkloadStep {
    /// A step with the default number of operations.
    pub(crate) fn of(workload: Workload) -> WorkloadStep {
        WorkloadStep { workload, operations: None }
    }

    /// Parses `WORKLOAD` or `WORKLOAD:OPERATIONS`. `adapt` takes no number: it runs until the store has adapted.
    pub(crate) fn parse(text: &str) -> Result<WorkloadStep, String> {
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
            operations => Ok(WorkloadStep { workload, operations: operations.flatten() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let steps =
            [("c", Workload::C, None), ("update:300", Workload::Update, Some(300)), ("adapt", Workload::Adapt, None)];
        for (text, workload, operations) in steps {
            assert_eq!(WorkloadStep::parse(text).unwrap(), WorkloadStep { workload, operations });
        }
        for text in ["", "x", "c:", "c:0", "c:-1", "c:1:2", ":5", "adapt:5"] {
            assert!(WorkloadStep::parse(text).is_err(), "{text:?}");
        }
    }
}
