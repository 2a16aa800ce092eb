//! An open store between the phases of its run, and the measurement of a phase.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::statvfs;

use super::{
    context::RunContext,
    keys::{Keys, Order, Scale, Use},
    limit::{Limit, Manner},
    options::{RECORDS, RunOptions},
    phase::{self, Outcome},
    process,
    progress::Progress,
    state::{Directory, Parameters, State},
    store::{self, Stats, Store},
    transfers::{Accounts, Transfers},
    value::VERSION_BYTES,
    versions::{self, Versions},
    workload::{distribution::Distribution, generator::Plan, inserts::Inserts, mix::Mix, trace::Trace},
};
use crate::{
    error::{Context, Result},
    row::{Durability, Shape, StoreKind, Workload},
    size,
};

/// The start of the key range for the shape `Stretch`, as a fraction of all keys.
const STRETCH: f64 = 0.4;

/// Expected disk space of a preparation, as a multiple of the user's data: garbage, rewritten files, logs.
const PREPARATION_SPACE: u64 = 3;

/// The state of a run between its phases.
pub(crate) struct Run<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) accounts: &'a Accounts,
    pub(crate) directory: Directory,
    pub(crate) state: State,
    pub(crate) trace: Option<Trace>,
    pub(crate) bench: RunContext,
}

/// The measurements of a phase, without the store's state at the end.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) stats: Stats,
    pub(crate) cpu: Duration,
    pub(crate) kernel: Option<Transfers>,
    pub(crate) workload: Workload,
    /// Operations of the warm-up before it.
    pub(crate) warmup: u64,
}

impl Measured {
    /// Read requests to the device, by the store's own count or else the kernel's.
    pub(crate) fn device_reads(&self, store: StoreKind) -> Option<u64> {
        if store.counts_device_io() {
            Some(self.stats.device_reads)
        } else {
            self.kernel.and_then(|kernel| kernel.reads)
        }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn open(options: &'a RunOptions, accounts: &'a Accounts) -> Result<Self> {
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
            check_free_space(directory.path(), (records as f64 * size) as u64)?;
        }
        let mut state = found.unwrap_or(State {
            parameters,
            finished: false,
            run: 0,
            loaded: records,
            preparation: None,
            existing: records,
        });
        state.run += 1;
        let store = open_store(options, &directory, fresh)?;
        directory.save(&state)?;
        let bench = RunContext {
            checks: store.remembers(),
            store,
            value_size: options.value_size,
            base_version: versions::base_version(state.run),
            versions: match options.workloads().any(Workload::updates) || options.prepared && fresh {
                true => Some(Versions::new(state.run, options.threads, options.batch)?),
                false => None,
            },
            inserts: Inserts::new(state.existing, keys.count(), usize::from(options.threads)),
            keys,
        };
        Ok(Run { options, accounts, directory, state, trace, bench })
    }

    /// Lets the store settle and returns the seconds that it took.
    pub(crate) fn settle(&self) -> Result<f64> {
        let (begin, _waiting) = (Instant::now(), Progress::waiting("settle"));
        self.bench.store.wait_until_quiet()?;
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Full speed.
    pub(crate) fn manner(&self) -> Manner {
        Manner {
            threads: usize::from(self.options.threads),
            batch: usize::from(self.options.batch),
            rate: None,
            cap: None,
        }
    }

    /// The plan of a workload over drawn records.
    pub(crate) fn drawn(&self, workload: Workload) -> Result<Plan> {
        let RunOptions { read_share, theta, .. } = *self.options;
        let distribution = match self.options.shape(workload) {
            Shape::Stretch => Distribution::over(self.stretch()?),
            shape => Distribution::new(shape, self.state.loaded, theta),
        };
        Ok(Plan::Drawn(Mix::new(workload, read_share), distribution))
    }

    /// The records of the key range, which starts at [`STRETCH`] of all keys.
    fn stretch(&self) -> Result<Vec<u64>> {
        let (from, keys) = (STRETCH.min(1.0 - self.options.stretch), &self.bench.keys);
        if !keys.have_places() {
            return Err("a stretch is of keys that are spread evenly; leave --order out".into());
        }
        let within = |record: &u64| (from..from + self.options.stretch).contains(&keys.place(*record));
        let records: Vec<u64> = (0..self.state.loaded).filter(within).collect();
        if records.is_empty() { Err("--stretch is so small that no record is in it".into()) } else { Ok(records) }
    }

    pub(crate) fn measure(
        &self,
        name: &'static str,
        plan: &Plan,
        limit: Limit,
        manner: Manner,
        phase: u64,
    ) -> Result<Measured> {
        let progress = Progress::new(name, limit);
        let (stats, kernel, cpu) = (self.bench.store.stats(), self.accounts.transfers(), process::cpu_time());
        if limit == Limit::Adapted {
            self.bench.store.adapt()?;
        }
        let seed = self.options.seed.wrapping_mul(3).wrapping_add(phase);
        let outcome = phase::run(&self.bench, plan, manner, limit, self.accounts, &progress, seed)?;
        let (cpu, stats) = (process::cpu_time() - cpu, self.bench.store.stats().since(&stats));
        let kernel = self.accounts.transfers().zip(kernel).map(|(now, then)| now.since(then));
        Ok(Measured { outcome, stats, cpu, kernel, workload: self.options.workload, warmup: 0 })
    }

    pub(crate) fn save(&mut self, finished: bool) -> Result<()> {
        self.state.finished = finished;
        self.state.existing = self.bench.inserts.existing();
        self.directory.save(&self.state)
    }
}

fn open_trace(options: &RunOptions, directory: &Directory) -> Result<Option<Trace>> {
    let Some(file) = &options.trace else { return Ok(None) };
    if options.workload.inserts() {
        return Err(
            "a trace is of accesses to records that are there; --trace goes with the workloads a, b, c and f".into()
        );
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

/// Opens the keys, and returns the default number of records.
fn open_keys(options: &RunOptions, directory: &Directory, trace: Option<&Trace>) -> Result<(Keys, u64)> {
    let objects = trace.map(Trace::objects);
    let Some(file) = &options.keys else {
        let usual = objects.unwrap_or(RECORDS);
        let order = options.order.unwrap_or(Order::Shuffled);
        return Ok((Keys::synthetic(options.key_size.unwrap_or(8), options.records.unwrap_or(usual), order)?, usual));
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
        return Err(
            format!("--value-size is {size}, and values of this bench have {VERSION_BYTES} to {most} bytes").into()
        );
    }
    Ok(Parameters {
        store: options.store,
        records,
        key_size: options.key_size.or(options.keys.is_none().then_some(8)),
        value_size: size,
        keys: options.keys.as_ref().map(|file| fs::canonicalize(file).context("find", file)).transpose()?,
        order: options.order.or(options.keys.as_ref().map(|_| Order::Shuffled)),
        scale: scale(options),
        prepared: options.prepared,
        logged: options.durability != Durability::None,
        set: options.settings.iter().filter(|(name, _)| name != store::TABLE_CACHE).cloned().collect(),
    })
}

/// Opens the store. If creating it fails, removes its files.
pub(crate) fn open_store(options: &RunOptions, directory: &Directory, fresh: bool) -> Result<Box<dyn Store>> {
    let path = directory.store();
    let memory = usize::try_from(options.memory)?;
    let settings = &options.settings;
    let opened = store::open(
        options.store,
        &store::Options { directory: &path, memory, durability: options.durability, settings },
    );
    if opened.is_err() && fresh && path.exists() {
        fs::remove_dir_all(&path).context("remove", &path)?;
    }
    opened
}

/// Checks that the file system has space to prepare a store with this many bytes of keys and values.
fn check_free_space(directory: &Path, bytes: u64) -> Result<()> {
    let file_system = statvfs(directory).context("look at", directory)?;
    let (free, needed) =
        (file_system.f_bavail.saturating_mul(file_system.f_frsize), bytes.saturating_mul(PREPARATION_SPACE));
    if free < needed {
        let (directory, free, needed) = (directory.display(), size::show(free), size::show(needed));
        return Err(format!("{directory} has {free} free, and the preparation is expected to need {needed}").into());
    }
    Ok(())
}
