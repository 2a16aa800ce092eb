//! A prepared state: what a store looks like after some use, not straight after its load.

use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use crate::{
    distribution::{Distribution, Shape},
    error::{Context, Result},
    generator::Plan,
    phase::{Limit, Manner},
    row::Load,
    run::{Run, per_second},
    size,
    workload::{Kind, Mix, Workload},
};

/// Updates for each record.
const UPDATES: u64 = 2;
/// Room that a preparation is expected to need, as a multiple of the user's data: garbage, files that are written anew, logs.
const ROOM: u64 = 3;

impl Run<'_> {
    /// Loads the empty store, updates its records uniformly, lets it settle, closes it and opens it again. Time that runs out ends the load
    /// or the updates, whichever it meets; the records that are there then are the records of the state.
    pub(crate) fn prepare(mut self) -> Result<Self> {
        if self.options.workload == Workload::Load {
            return Err("--workload load measures a load, and --prepared leaves nothing to load".into());
        }
        self.check_room()?;
        let (begin, records) = (Instant::now(), self.state.parameters.records);
        let loaded = self.measure("load", &Plan::Load, Limit::Operations(records), self.capped(begin), 0)?.outcome;
        self.state.loaded = loaded.operations;
        let updated = self.update(begin)?;
        let settle_seconds = self.settle()?;
        let capped = loaded.operations < records || updated.operations < UPDATES * records;
        let (seconds, ops_per_second) = (loaded.seconds, per_second(&loaded));
        self.state.preparation = Some(Load { seconds, ops_per_second, settle_seconds, updates_seconds: Some(updated.seconds), capped });
        self.reopen()
    }
}
