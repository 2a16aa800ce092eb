//! The subcommand `run`: load, settle, warm up, measure.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    bench::Bench,
    cli::RunOptions,
    distribution::{self, Distribution, Shape},
    error::{Context, Result},
    generator::Plan,
    inserts::Inserts,
    keys::{Keys, Order, Scale, Use},
    phase::{Limit, Manner, Outcome, Phase},
    prepare::check_room,
    process::{self, DeviceBytes},
    progress::Progress,
    row::{Latency, Load, Row},
    state::{Directory, Parameters, State},
    store::{self, Durability, Stats},
    trace::Trace,
    value::VERSION_BYTES,
    versions::{self, Versions},
    workload::Workload,
};

/// Records without --records and --keys.
const RECORDS: u64 = 1_000_000;

/// A run between its phases.
pub(crate) struct Run<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) directory: Directory,
    pub(crate) state: State,
    shape: Shape,
    trace: Option<Trace>,
    pub(crate) bench: Bench,
}

/// What was measured, apart from the store's state at the end.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    stats: Stats,
    cpu: Duration,
    kernel: Option<DeviceBytes>,
}

/// Carries `run` out and prints its result.
pub(crate) fn run(options: &RunOptions) -> Result<()> {
    let mut run = Run::open(options)?;
    let fresh = !run.state.finished;
    if options.workload == Workload::Load && !fresh {
        let directory = options.dir.display();
        return Err(format!("the store in {directory} is loaded already, and --workload load needs an empty --dir").into());
    }
    let loaded = match (fresh, options.prepared) {
        (false, _) => None,
        (true, false) => Some(run.load()?),
        (true, true) => {
            run = run.prepare()?;
            None
        }
    };
    let load = loaded.as_ref().map(|(load, _)| *load).or(run.state.preparation);
    let measured = match loaded {
        Some((_, measured)) if options.workload == Workload::Load => measured,
        _ => run.measure_workload()?,
    };
    let row = run.close(load, measured)?;
    Ok(row.print(options.json)?)
}

impl<'a> Run<'a> {
    pub(crate) fn open(options: &'a RunOptions) -> Result<Self> {
        let directory = Directory::open(&options.dir)?;
        let trace = open_trace(options, &directory)?;
        let (keys, usual) = open_keys(options, &directory, trace.as_ref())?;
        let parameters = parameters(options, &keys, usual)?;
        check_trace(trace.as_ref(), options, parameters.records)?;
        let found = directory.state(&parameters)?;
        let fresh = found.is_none();
        let records = parameters.records;
        if fresh && options.prepared {
            let size = keys.mean_bytes() + options.value_size as f64;
            check_room(directory.path(), (records as f64 * size) as u64)?;
        }
        let mut state =
            found.unwrap_or(State { parameters, finished: false, run: 0, loaded: records, preparation: None, existing: records });
        state.run += 1;
        let store = open_store(options, &directory, fresh)?;
        directory.save(&state)?;
        let usual = if trace.is_some() { Shape::Trace } else { options.workload.usual_shape() };
        let shape = options.distribution.unwrap_or(usual);
        let bench = Bench {
            checks: store.remembers(),
            store,
            value_size: options.value_size,
            base_version: versions::base_version(state.run),
            versions: match options.workload.updates() || options.prepared && fresh {
                true => Some(Versions::new(state.run, options.threads, options.batch)?),
                false => None,
            },
            inserts: Inserts::new(state.existing, keys.count(), usize::from(options.threads)),
            keys,
        };
        Ok(Run { options, directory, state, shape, trace, bench })
    }

    /// Loads all records and lets the store settle.
    fn load(&mut self) -> Result<(Load, Measured)> {
        let records = self.state.parameters.records;
        let measured = self.measure("load", &Plan::Load, Limit::Operations(records), self.manner(), 0)?;
        let settle_seconds = self.settle()?;
        self.save(true)?;
        let (seconds, ops_per_second) = (measured.outcome.seconds, per_second(&measured.outcome));
        Ok((Load { seconds, ops_per_second, settle_seconds, updates_seconds: None, capped: false }, measured))
    }

    /// Lets the store settle and gives the seconds that it took.
    pub(crate) fn settle(&self) -> Result<f64> {
        let (begin, _waiting) = (Instant::now(), Progress::waiting("settle"));
        self.bench.store.settle()?;
        Ok(begin.elapsed().as_secs_f64())
    }

    /// As fast as it goes.
    pub(crate) fn manner(&self) -> Manner {
        Manner { threads: usize::from(self.options.threads), batch: usize::from(self.options.batch), rate: None, cap: None }
    }

    /// Warms the store up and measures the workload.
    fn measure_workload(&mut self) -> Result<Measured> {
        let (options, records) = (self.options, self.state.loaded);
        let mix = options.workload.mix(options.read_share);
        let (mut plan, once) = match self.trace.take() {
            Some(trace) => {
                let accesses = trace.accesses();
                (Plan::Traced(mix, trace, 0), accesses)
            }
            None => (Plan::Drawn(mix, Distribution::new(self.shape, records, options.theta)), records),
        };
        if options.workload.inserts() {
            self.save(false)?;
        }
        let usual = if options.workload == Workload::Insert { 0 } else { records };
        let warmup = options.warmup.unwrap_or(usual);
        if warmup > 0 {
            self.measure("warm up", &plan, Limit::Operations(warmup), self.manner(), 1)?;
        }
        if let Plan::Traced(_, _, start) = &mut plan {
            *start = warmup;
        }
        let operations = Limit::Operations(options.operations.unwrap_or(once));
        let limit = options.seconds.map_or(operations, |seconds| Limit::Time(Duration::from_secs_f64(seconds)));
        self.measure("measure", &plan, limit, Manner { rate: options.rate, ..self.manner() }, 2)
    }

    pub(crate) fn measure(&self, name: &'static str, plan: &Plan, limit: Limit, manner: Manner, phase: u64) -> Result<Measured> {
        let progress = Progress::new(name, limit);
        let (stats, kernel, cpu) = (self.bench.store.stats(), DeviceBytes::now(), process::cpu_time());
        let seed = self.options.seed.wrapping_mul(3).wrapping_add(phase);
        let outcome = Phase::new(&self.bench, plan, manner, limit).run(&progress, seed)?;
        let (cpu, stats) = (process::cpu_time() - cpu, self.bench.store.stats().since(&stats));
        let kernel = DeviceBytes::now().zip(kernel).map(|(now, then)| now.since(then));
        Ok(Measured { outcome, stats, cpu, kernel })
    }

    pub(crate) fn save(&mut self, finished: bool) -> Result<()> {
        self.state.finished = finished;
        self.state.existing = self.bench.inserts.existing();
        self.directory.save(&self.state)
    }

    /// Closes the store and puts the result together.
    fn close(mut self, load: Option<Load>, measured: Measured) -> Result<Row> {
        self.state.existing = self.bench.inserts.existing();
        let key_size = self.bench.keys.mean_bytes();
        self.bench.store.close()?;
        self.state.finished = true;
        self.directory.save(&self.state)?;
        let Measured { outcome, stats, cpu, kernel } = measured;
        let options = self.options;
        Ok(Row {
            store: options.store,
            workload: options.workload,
            distribution: self.shape,
            theta: options.theta,
            trace: options.trace.as_ref().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned()),
            records: self.state.loaded,
            key_size,
            value_size: options.value_size as u64,
            threads: u64::from(options.threads),
            batch: u64::from(options.batch),
            rate: options.rate,
            durability: options.durability,
            operations: outcome.operations,
            seconds: outcome.seconds,
            ops_per_second: per_second(&outcome),
            latency_us: Latency::new(&outcome.latency),
            device_reads: stats.device_reads,
            device_writes: stats.device_writes,
            read_bytes: stats.read_bytes,
            write_bytes: stats.write_bytes,
            kernel_read_bytes: kernel.map(|bytes| bytes.read),
            kernel_write_bytes: kernel.map(|bytes| bytes.written),
            user_read_bytes: outcome.traffic.read,
            user_write_bytes: outcome.traffic.written,
            device_reads_per_op: stats.device_reads as f64 / outcome.operations.max(1) as f64,
            ideal_device_reads_per_op: ideal(options, self.shape, self.state.loaded, key_size),
            memory_budget: options.memory,
            memory_peak: process::peak_memory(),
            index_bytes: stats.index_bytes,
            cpu_seconds: cpu.as_secs_f64(),
            load,
            engine: stats.engine,
        })
    }
}

/// The misses of a memory that holds the hottest records in all of the budget, with nothing for their administration.
fn ideal(options: &RunOptions, shape: Shape, records: u64, key_size: f64) -> Option<f64> {
    let kept = (options.memory as f64 / (key_size + options.value_size as f64)) as u64;
    let ideal = distribution::ideal_miss(shape, records, options.theta, kept);
    ideal.filter(|_| options.workload.reads_points())
}

pub(crate) fn per_second(outcome: &Outcome) -> f64 {
    outcome.operations as f64 / outcome.seconds.max(1e-9)
}

fn open_trace(options: &RunOptions, directory: &Directory) -> Result<Option<Trace>> {
    let Some(file) = &options.trace else { return Ok(None) };
    if options.workload.inserts() {
        return Err("a trace is of accesses to records that are there; --trace goes with the workloads a, b, c and f".into());
    }
    Trace::open(file, directory.path()).map(Some)
}

fn check_trace(trace: Option<&Trace>, options: &RunOptions, records: u64) -> Result<()> {
    match trace {
        None if options.distribution == Some(Shape::Trace) => Err("--distribution trace needs a --trace".into()),
        Some(trace) if trace.objects() > records => {
            Err(format!("the trace has {} different objects, and there are {records} records", trace.objects()).into())
        }
        _ => Ok(()),
    }
}

/// The keys, and how many records there usually are.
fn open_keys(options: &RunOptions, directory: &Directory, trace: Option<&Trace>) -> Result<(Keys, u64)> {
    let objects = trace.map(Trace::objects);
    let Some(file) = &options.keys else {
        let usual = objects.unwrap_or(RECORDS);
        return Ok((Keys::synthetic(options.key_size.unwrap_or(8), options.records.unwrap_or(usual))?, usual));
    };
    let order = options.order.unwrap_or(Order::Shuffled);
    let keys = Keys::open(file, directory.path(), Use { key_size: options.key_size, order, scale: scale(options) })?;
    let usual = objects.unwrap_or(keys.count());
    Ok((keys, usual))
}

fn scale(options: &RunOptions) -> Option<Scale> {
    options.scale_keys.map(|keys| Scale { keys, seed: options.seed })
}

fn parameters(options: &RunOptions, keys: &Keys, usual: u64) -> Result<Parameters> {
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
        order: options.keys.as_ref().map(|_| options.order.unwrap_or(Order::Shuffled)),
        scale: scale(options),
        prepared: options.prepared,
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
