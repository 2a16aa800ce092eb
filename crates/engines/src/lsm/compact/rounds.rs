//! Which table of a level is taken whatever it costs, so that each is at some time (decision 16, "Picking").

use std::collections::BTreeMap;

/// One of so many jobs of a level does that.
const JOBS: u32 = 16;

/// Where each level is in going through its tables.
#[derive(Debug, Default)]
pub(in crate::lsm) struct Rounds(BTreeMap<u8, Round>);

#[derive(Debug, Default)]
struct Round {
    jobs: u32,
    /// The last key of the table that was taken so.
    last: Vec<u8>,
}

impl Rounds {
    /// A job of a level is chosen. The key behind which it takes a table, and which it moves on, if it is one of those.
    pub(super) fn begin_job(&mut self, depth: u8) -> Option<&mut Vec<u8>> {
        let round = self.0.entry(depth).or_default();
        round.jobs = (round.jobs + 1) % JOBS;
        (round.jobs == 0).then_some(&mut round.last)
    }
}
