//! Prepares a store: brings it from the state after a load into a state after some use.

use std::time::{Duration, Instant};

use super::{
    limit::{Limit, Manner},
    phase::Outcome,
    run::Run,
    workload::{
        distribution::Distribution,
        generator::Plan,
        mix::{Kind, Mix},
    },
};
use crate::{
    error::Result,
    row::{Load, Shape, Workload},
};

/// Updates for each record.
const UPDATES: u64 = 2;

/// Loads the empty store, updates its records uniformly, lets it settle, closes and reopens it. If time runs out,
/// the load or the updates end early, and the state holds the records loaded so far.
pub(crate) fn prepare(mut run: Run<'_>) -> Result<Run<'_>> {
    if run.options.workload == Workload::Load {
        return Err("--workload load measures a load, and --prepared leaves nothing to load".into());
    }
    let (begin, records) = (Instant::now(), run.state.parameters.records);
    let loaded =
        run.measure("load", &Plan::Each(Kind::Load), Limit::Operations(records), capped(&run, begin), 0)?.outcome;
    run.state.loaded = loaded.operations;
    let updated = update(&run, begin)?;
    let settle_seconds = run.settle()?;
    let capped = loaded.operations < records || updated.operations < UPDATES * records;
    let (seconds, ops_per_second) = (loaded.seconds, loaded.per_second());
    run.state.preparation =
        Some(Load { seconds, ops_per_second, settle_seconds, updates_seconds: Some(updated.seconds), capped });
    reopen(run)
}

fn update(run: &Run<'_>, begin: Instant) -> Result<Outcome> {
    let loaded = run.state.loaded;
    if loaded == 0 {
        return Err("nothing could be loaded in --prepare-seconds".into());
    }
    let plan = Plan::Drawn(Mix::only(Kind::Update), Distribution::new(Shape::Uniform, loaded, 0.0));
    Ok(run.measure("update", &plan, Limit::Operations(UPDATES * loaded), capped(run, begin), 3)?.outcome)
}

/// Full speed, until the time for the preparation is over.
fn capped(run: &Run<'_>, begin: Instant) -> Manner {
    let limit = Duration::from_secs_f64(run.options.prepare_seconds);
    Manner { cap: Some(limit.saturating_sub(begin.elapsed())), ..run.manner() }
}

fn reopen(mut run: Run<'_>) -> Result<Run<'_>> {
    run.bench.store.close()?;
    (run.state.finished, run.state.existing) = (true, run.state.loaded);
    run.directory.save(&run.state)?;
    Run::open(run.options, run.accounts)
}
