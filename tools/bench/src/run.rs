//! The subcommand `run`: load, settle, warm up, measure.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    bench::Bench,
    cli::RunOptions,
    distribution::{Distribution, Shape},
    error::{Context, Result},
    execute::Executor,
    files,
    generator::{Operation, Plan},
    inserts::Inserts,
    keys::{Keys, Synthetic},
    phase::{Limit, Manner, Outcome, Phase},
    process,
    progress::Progress,
    row::{Footprint, Load, Row},
    state::{Directory, Parameters, State},
    store::{self, Durability, Stats},
    transfers::{Accounts, Transfers},
    value::VERSION_BYTES,
    versions::{self, Versions},
    workload::{Kind, Workload},
};

/// Records without --records and --keys.
pub(crate) const RECORDS: u64 = 1_000_000;

/// A run between its phases.
struct Run<'a> {
    options: &'a RunOptions,
    accounts: &'a Accounts,
    directory: Directory,
    state: State,
    shape: Shape,
    bench: Bench,
}

/// What was measured, apart from the store's state at the end.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) stats: Stats,
    pub(crate) cpu: Duration,
    pub(crate) kernel: Option<Transfers>,
}

/// Carries one row out; the kernel keeps its `accounts`.
pub(crate) fn run(options: &RunOptions, accounts: &Accounts) -> Result<Row> {
    let mut run = Run::open(options, accounts)?;
    let fresh = !run.state.finished;
    if options.workload == Workload::Load && !fresh {
        let directory = options.dir.display();
        return Err(format!("the store in {directory} is loaded already, and --workload load needs an empty --dir").into());
    }
    let loaded = if fresh { Some(run.load()?) } else { None };
    let load = loaded.as_ref().map(|(load, _)| *load);
    let measured = match loaded {
        Some((_, measured)) if options.workload == Workload::Load => measured,
        _ => run.measure_workload()?,
    };
    run.close(load, measured)
}

impl<'a> Run<'a> {
    fn open(options: &'a RunOptions, accounts: &'a Accounts) -> Result<Self> {
        let directory = Directory::open(&options.dir)?;
        let keys = match &options.keys {
            Some(file) => Keys::open(file, directory.path(), options.key_size)?,
            None => Keys::Synthetic(Synthetic::new(options.key_size.unwrap_or(8), options.records.unwrap_or(RECORDS))?),
        };
        let parameters = parameters(options, &keys)?;
        let found = directory.state(&parameters)?;
        let fresh = found.is_none();
        let records = parameters.records;
        let mut state = found.unwrap_or(State { parameters, finished: false, run: 0, existing: records });
        state.run += 1;
        let store = open_store(options, &directory, fresh)?;
        directory.save(&state)?;
        let shape = options.distribution.unwrap_or(options.workload.usual_shape());
        let bench = Bench {
            checks: store.remembers(),
            store,
            value_size: options.value_size,
            base_version: versions::base_version(state.run),
            versions: options.workload.updates().then(|| Versions::new(state.run)),
            inserts: Inserts::new(state.existing, keys.count(), usize::from(options.threads)),
            keys,
        };
        Ok(Run { options, accounts, directory, state, shape, bench })
    }

    /// Loads all records and lets the store settle.
    fn load(&mut self) -> Result<(Load, Measured)> {
        let records = self.state.parameters.records;
        let measured = self.measure("load", &Plan::load(records), Limit::Operations(records), None, 0)?;
        let begin = Instant::now();
        let waiting = Progress::waiting("settle");
        self.bench.store.settle()?;
        drop(waiting);
        self.save(true)?;
        let seconds = measured.outcome.seconds;
        Ok((
            Load { seconds, ops_per_second: measured.outcome.per_second(), settle_seconds: begin.elapsed().as_secs_f64() },
            measured,
        ))
    }

    /// Warms the store up and measures the workload.
    fn measure_workload(&mut self) -> Result<Measured> {
        let (options, records) = (self.options, self.state.parameters.records);
        let distribution = Distribution::new(self.shape, records, options.theta);
        let plan = Plan::Mix { workload: options.workload, distribution };
        if options.workload.inserts() {
            self.save(false)?;
        }
        let usual = if options.workload == Workload::Insert { 0 } else { records };
        let warmup = options.warmup.unwrap_or(usual);
        if warmup > 0 {
            self.measure("warm up", &plan, Limit::Operations(warmup), None, 1)?;
        }
        let operations = Limit::Operations(options.operations.unwrap_or(records));
        let limit = options.seconds.map_or(operations, |seconds| Limit::Time(Duration::from_secs_f64(seconds)));
        self.measure("measure", &plan, limit, options.rate, 2)
    }

    fn measure(&self, name: &'static str, plan: &Plan, limit: Limit, rate: Option<f64>, phase: u64) -> Result<Measured> {
        let manner = Manner { threads: usize::from(self.options.threads), batch: usize::from(self.options.batch), rate };
        let progress = Progress::new(name, limit);
        let (stats, kernel, cpu) = (self.bench.store.stats(), self.accounts.transfers(), process::cpu_time());
        let seed = self.options.seed.wrapping_mul(3).wrapping_add(phase);
        let outcome = Phase::new(&self.bench, plan, manner, limit, self.accounts).run(&progress, seed)?;
        let (cpu, stats) = (process::cpu_time() - cpu, self.bench.store.stats().since(&stats));
        let kernel = self.accounts.transfers().zip(kernel).map(|(now, then)| now.since(then));
        Ok(Measured { outcome, stats, cpu, kernel })
    }

    fn save(&mut self, finished: bool) -> Result<()> {
        self.state.finished = finished;
        self.state.existing = self.bench.inserts.existing();
        self.directory.save(&self.state)
    }

    /// Closes the store, opens it once more and puts the result together.
    fn close(mut self, load: Option<Load>, measured: Measured) -> Result<Row> {
        self.state.existing = self.bench.inserts.existing();
        let (options, bench) = (self.options, self.bench);
        bench.store.close()?;
        self.state.finished = true;
        self.directory.save(&self.state)?;
        let (memory_peak, path) = (process::peak_memory(), self.directory.store());
        let size_on_disk = if path.exists() { files::allocated(&path)? } else { 0 };
        files::drop_cached(&path)?;
        let begin = Instant::now();
        let bench = Bench { store: open_store(options, &self.directory, false)?, ..bench };
        Executor::new(&bench, 0).single(Operation { kind: Kind::Read, record: 0, length: 0 })?;
        let open_seconds = begin.elapsed().as_secs_f64();
        bench.store.close()?;
        let key_size = bench.keys.mean_bytes();
        Ok(Row::new(
            options,
            self.shape,
            &self.state,
            measured,
            &Footprint { key_size, memory_peak, size_on_disk, open_seconds },
            load,
        ))
    }
}

fn parameters(options: &RunOptions, keys: &Keys) -> Result<Parameters> {
    let usual = if options.keys.is_some() { keys.count() } else { RECORDS };
    let records = options.records.unwrap_or(usual);
    if records > keys.count() {
        return Err(format!("--records is {records}, and there are {} keys", keys.count()).into());
    }
    let (size, most) = (options.value_size, ecotone::limits::MAX_RECORD - options.key_size.unwrap_or(1));
    if !(VERSION_BYTES..=most).contains(&size) {
        return Err(format!("--value-size is {size}, and values of this bench have {VERSION_BYTES} to {most} bytes").into());
    }
    Ok(Parameters {
        store: options.store,
        records,
        key_size: options.key_size.or(options.keys.is_none().then_some(8)),
        value_size: size,
        keys: options.keys.as_ref().map(|file| fs::canonicalize(file).context("find", file)).transpose()?,
        logged: options.durability != Durability::None,
        set: options.settings.iter().cloned().collect(),
    })
}

/// Opens the store; one that could not be made leaves nothing behind.
fn open_store(options: &RunOptions, directory: &Directory, fresh: bool) -> Result<Box<dyn store::Store>> {
    let path = directory.store();
    let memory = usize::try_from(options.memory)?;
    let settings = &options.settings;
    let opened =
        store::open(options.store, &store::Options { directory: &path, memory, durability: options.durability, settings });
    if opened.is_err() && fresh && path.exists() {
        fs::remove_dir_all(&path).context("remove", &path)?;
    }
    opened
}
