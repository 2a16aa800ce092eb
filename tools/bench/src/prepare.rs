//! Prepares a store: brings it from the state after a load into a state after some use.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::statvfs;

use crate::{
    distribution::{Distribution, Shape},
    error::{Context, Result},
    generator::Plan,
    phase::{Limit, Manner, Outcome},
    row::Load,
    run::Run,
    size,
    workload::{Kind, Mix, Workload},
};

/// Updates for each record.
const UPDATES: u64 = 2;
/// Expected disk space of a preparation, as a multiple of the user's data: garbage, rewritten files, logs.
const ROOM: u64 = 3;

impl Run<'_> {
    /// Loads the empty store, updates its records uniformly, lets it settle, closes and reopens it. If time runs out,
    /// the load or the updates end early, and the state holds the records loaded so far.
    pub(crate) fn prepare(mut self) -> Result<Self> {
        if self.options.workload == Workload::Load {
            return Err("--workload load measures a load, and --prepared leaves nothing to load".into());
        }
        let (begin, records) = (Instant::now(), self.state.parameters.records);
        let loaded =
            self.measure("load", &Plan::Each(Kind::Load), Limit::Operations(records), self.capped(begin), 0)?.outcome;
        self.state.loaded = loaded.operations;
        let updated = self.update(begin)?;
        let settle_seconds = self.settle()?;
        let capped = loaded.operations < records || updated.operations < UPDATES * records;
        let (seconds, ops_per_second) = (loaded.seconds, loaded.per_second());
        self.state.preparation =
            Some(Load { seconds, ops_per_second, settle_seconds, updates_seconds: Some(updated.seconds), capped });
        self.reopen()
    }

    fn update(&self, begin: Instant) -> Result<Outcome> {
        let loaded = self.state.loaded;
        if loaded == 0 {
            return Err("nothing could be loaded in --prepare-seconds".into());
        }
        let plan = Plan::Drawn(Mix::only(Kind::Update), Distribution::new(Shape::Uniform, loaded, 0.0));
        Ok(self.measure("update", &plan, Limit::Operations(UPDATES * loaded), self.capped(begin), 3)?.outcome)
    }

    /// Full speed, until the time for the preparation is over.
    fn capped(&self, begin: Instant) -> Manner {
        let limit = Duration::from_secs_f64(self.options.prepare_seconds);
        Manner { cap: Some(limit.saturating_sub(begin.elapsed())), ..self.manner() }
    }

    fn reopen(mut self) -> Result<Self> {
        self.bench.store.close()?;
        (self.state.finished, self.state.existing) = (true, self.state.loaded);
        self.directory.save(&self.state)?;
        Run::open(self.options, self.accounts)
    }
}

/// Checks that the file system has space to prepare a store with this many bytes of keys and values.
pub(crate) fn check_room(directory: &Path, bytes: u64) -> Result<()> {
    let file_system = statvfs(directory).context("look at", directory)?;
    let (free, needed) = (file_system.f_bavail.saturating_mul(file_system.f_frsize), bytes.saturating_mul(ROOM));
    if free < needed {
        let (directory, free, needed) = (directory.display(), size::show(free), size::show(needed));
        return Err(format!("{directory} has {free} free, and the preparation is expected to need {needed}").into());
    }
    Ok(())
}
