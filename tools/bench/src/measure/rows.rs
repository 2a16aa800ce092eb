//! The rows of one store, in this process: load or prepare, warm up, measure each workload, close.

use std::time::{Duration, Instant};

use super::{
    context::RunContext,
    files,
    limit::{Limit, Manner},
    options::{RunOptions, Warmup, WorkloadStep},
    phase::execute::Executor,
    prepare::prepare,
    process,
    result::{self, Footprint},
    run::{Measured, Run, open_store},
    store::End,
    transfers::Accounts,
    warmup::warm_up,
    workload::{
        generator::{Operation, Plan},
        mix::{Kind, Mix},
    },
};
use crate::{
    error::Result,
    row::{Load, Row, Workload},
};

/// Runs the rows of a store, one for each workload that `next` returns; the kernel keeps its `accounts`.
pub(crate) fn run(
    options: &RunOptions,
    accounts: &Accounts,
    next: impl FnMut() -> Result<Option<WorkloadStep>>,
) -> Result<Vec<Row>> {
    let mut run = Run::open(options, accounts)?;
    let fresh = !run.state.finished;
    if options.workload == Workload::Load && !fresh {
        let directory = options.dir.display();
        return Err(
            format!("the store in {directory} is loaded already, and --workload load needs an empty --dir").into()
        );
    }
    let loaded = match (fresh, options.prepared) {
        (false, _) => None,
        (true, false) => Some(load(&mut run)?),
        (true, true) => {
            run = prepare(run)?;
            None
        }
    };
    let load = loaded.as_ref().map(|(load, _)| *load).or(run.state.preparation);
    let measured = match loaded {
        Some((_, measured)) if options.workload == Workload::Load => vec![measured],
        _ => measure_workloads(&mut run, next)?,
    };
    close(run, load, measured)
}

/// Loads all records and lets the store settle.
fn load(run: &mut Run<'_>) -> Result<(Load, Measured)> {
    let records = run.state.parameters.records;
    let measured = run.measure("load", &Plan::Each(Kind::Load), Limit::Operations(records), run.manner(), 0)?;
    let settle_seconds = run.settle()?;
    run.save(true)?;
    let (seconds, ops_per_second) = (measured.outcome.seconds, measured.outcome.per_second());
    Ok((Load { seconds, ops_per_second, settle_seconds, updates_seconds: None, capped: false }, measured))
}

/// Warms the store up, and measures each workload that `next` returns.
fn measure_workloads(
    run: &mut Run<'_>,
    mut next: impl FnMut() -> Result<Option<WorkloadStep>>,
) -> Result<Vec<Measured>> {
    let (options, records) = (run.options, run.state.loaded);
    let (mut plan, once) = match run.trace.take() {
        Some(trace) => {
            let accesses = trace.accesses();
            (Plan::Traced(Mix::new(options.workload, options.read_share), trace, 0), accesses)
        }
        None => (run.drawn(options.workload)?, records),
    };
    if options.workloads().any(|workload| workload.inserts() || workload.removes()) || !options.store.survives_kill() {
        run.save(false)?;
    }
    let usual = if options.workload == Workload::Insert || options.workload.removes() { 0 } else { records };
    let warmup = warm_up(run, options.warmup.unwrap_or(Warmup::Operations(usual)), &mut plan)?;
    let operations = Limit::Operations(options.operations.unwrap_or(once));
    let limit = options.seconds.map_or(operations, |seconds| Limit::Time(Duration::from_secs_f64(seconds)));
    let manner = Manner { rate: options.rate, ..run.manner() };
    let (mut workload, mut rounds) = (options.workload, Vec::new());
    while let Some(asked) = next()? {
        if asked.workload != workload {
            (workload, plan) = (asked.workload, run.drawn(asked.workload)?);
        }
        let limit = match workload {
            Workload::Adapt => Limit::Adapted,
            _ => asked.operations.map_or(limit, Limit::Operations),
        };
        let measured = run.measure("measure", &plan, limit, manner, 2 + ((rounds.len() as u64) << 32))?;
        plan.go_on(measured.outcome.operations);
        rounds.push(Measured { workload, warmup, ..measured });
    }
    Ok(rounds)
}

/// Closes the store, reopens it once and collects the results.
fn close(mut run: Run<'_>, load: Option<Load>, rounds: Vec<Measured>) -> Result<Vec<Row>> {
    run.state.existing = run.bench.inserts.existing();
    let (options, bench) = (run.options, run.bench);
    bench.store.close()?;
    let (memory_peak, path) = (process::peak_memory(), run.directory.store());
    let size_on_disk = if path.exists() { files::allocated(&path)? } else { 0 };
    files::drop_cached(&path)?;
    let begin = Instant::now();
    let bench = RunContext { store: open_store(options, &run.directory, false)?, ..bench };
    let removes = options.workloads().any(Workload::removes);
    if removes {
        // It is unknown which records are left.
        bench.store.end(End::First, &mut |_, _| {})?;
    } else {
        Executor::new(&bench, 0).single(Operation { kind: Kind::Read, record: 0, length: 0 })?;
    }
    let open_seconds = begin.elapsed().as_secs_f64();
    bench.store.close()?;
    run.state.finished = !removes;
    run.directory.save(&run.state)?;
    let key_size = bench.keys.mean_bytes();
    let footprint = Footprint { key_size, memory_peak, size_on_disk, open_seconds };
    let row = |measured| result::row(options, &run.state, measured, &footprint, load);
    Ok(rounds.into_iter().map(row).collect())
}
