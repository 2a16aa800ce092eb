//! `ecotone demo`: real keys in a database several times larger than its memory, loaded, read, scanned, updated,
//! killed, reopened and checked.

mod check;
pub(crate) mod child;
mod directory;
mod expected;
mod key_bits;
mod keyspaces;
mod kill;
mod measure;
mod memory;
mod operations;
mod phases;
mod progress;
mod report;
mod sets;
mod shapes;
mod values;
pub(crate) mod victim;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use ecotone::Database;

use self::{
    directory::Directory,
    expected::ExpectedState,
    keyspaces::{DemoKeyspaces, Universe},
    kill::{KilledChild, Moment, hunt},
    measure::{Limit, Row},
    memory::Memory,
    operations::Keys,
    report::{mib, table},
    sets::Sizes,
    shapes::Shapes,
    values::VALUE,
};
use crate::{
    failure::Failure,
    open_keyspace::OpenKeyspace,
    output::Output,
    target::{Engine, Setting, parse_size},
};

/// Loads real keys into a database several times larger than its memory, kills it in the middle of its work and checks
/// it
///
/// 2.9 million real keys (275 MiB of records) go into a database with 32 MiB of memory; eight threads work on it; then
/// it kills a child process with SIGKILL in the middle of its work, reopens the database, and checks every write that
/// was acknowledged. Takes about a minute and less than 1 GiB of disk, of which nothing is left at the end, nor after
/// Ctrl-C. Only a failed check leaves the database.
///
/// The last line is `verified N of N acknowledged writes`; anything else is an error, with exit code 1.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to make the directory of the database; default is the system's directory for temporary files
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the database
    #[arg(long)]
    keep: bool,
    /// The engine of its keyspaces; with hash nothing is scanned
    #[arg(long, default_value = "tree")]
    engine: Engine,
    /// Memory that the database may use; bytes, or a number with KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_size)]
    memory: usize,
    /// A tenth of the keys and phases of half a second: for tests, too little to outgrow the memory
    #[arg(long)]
    small: bool,
    /// How often a child process is killed; from the second time on at any moment of its life, also while it recovers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
    kills: u32,
}

/// Disk space that the demonstration may need: the data, the same again for reorganisation, the log, and a margin.
const FULL_DISK: u64 = 1 << 30;
const SMALL_DISK: u64 = 192 << 20;

/// The round of the mixed workload that is not killed; victims run the rounds after it.
const FIRST_ROUND: u32 = 1;

impl Demo {
    /// Runs the whole demonstration.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let wanted = if self.small { SMALL_DISK } else { FULL_DISK };
        let mut directory = Directory::new(self.dir.as_deref(), self.keep, wanted)?;
        let verified = self.run_in(directory.path());
        if verified.is_err() {
            directory.keep();
        }
        say(&format!("verified {0} of {0} acknowledged writes", verified?))
    }

    fn run_in(&self, path: &Path) -> Result<u64, Failure> {
        let universe = Universe::new(self.sizes());
        self.introduce(&universe, path)?;
        let mut ledger = ExpectedState::loaded(universe.len());
        let (mut rows, memory) = self.work(&universe, path, &mut ledger)?;
        let mut verified = 0;
        for round in FIRST_ROUND + 1..=FIRST_ROUND + self.kills {
            let prey = self.kill(path, round)?;
            ledger.replay(round, &prey.done, true);
            verified = self.reopen(&universe, path, &mut ledger, prey.shapes)?;
            if round == FIRST_ROUND + 1 {
                rows.push(prey.row());
                let killed = ("peak of the killed process", prey.peak);
                say(&format!("\n{}\n\nmemory: {}\n", table(&rows), report::sizes(&[&memory[..], &[killed]].concat())))?;
            }
        }
        Ok(verified)
    }

    fn sizes(&self) -> Sizes {
        if self.small { Sizes::SMALL } else { Sizes::FULL }
    }

    /// With `--small`, ranges convert in small units, so that many conversions happen in a short session.
    fn settings(&self) -> Vec<Setting> {
        let sizes =
            [("memtable", "1048576"), ("table", "65536")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        if self.small && matches!(self.engine, Engine::Adaptive) { sizes.into() } else { Vec::new() }
    }

    /// The limit of a phase that only reads or works.
    fn limit(&self) -> Limit {
        match self.small {
            true => Limit { operations: 10_000, time: Duration::from_millis(500) },
            false => Limit { operations: 200_000, time: Duration::from_secs(5) },
        }
    }

    fn introduce(&self, universe: &Universe, path: &Path) -> Result<(), Failure> {
        let paths: usize = sets::paths(self.sizes().paths)
            .zip(0..)
            .map(|(path, line)| path.len() + check::path_value(line).len())
            .sum();
        let bytes = (universe.len() * (size_of::<u64>() + VALUE) + paths) as u64;
        let times = bytes as f64 / self.memory as f64;
        let Sizes { taxa, cities, paths } = self.sizes();
        say(&format!("real keys: {taxa} taxa, {cities} towns, {paths} file paths"))?;
        say(&format!("records: {}, {times:.1} times the memory of {}", mib(bytes), mib(self.memory as u64)))?;
        say(&format!("database: {}, engine {}", path.display(), self.engine.name()))
    }

    /// Loads, reads, scans and updates. Returns the rows and the memory used.
    fn work(
        &self,
        universe: &Universe,
        path: &Path,
        ledger: &mut ExpectedState,
    ) -> Result<(Vec<Row>, [Memory; 3]), Failure> {
        let database = Database::builder(path).memory_budget(self.memory).open()?;
        let keyspaces = DemoKeyspaces::create(&database, universe, self.engine, &self.settings())?;
        let mut rows = vec![
            phases::load_taxa(&keyspaces)?,
            phases::load_cities(&keyspaces)?,
            phases::load_paths(&keyspaces, self.sizes())?,
        ];
        // Flushes the loaded data now, so that the reads below are charged with their own requests only.
        database.flush()?;
        let (limit, taxa) = (self.limit(), universe.taxa.len());
        let (uniform, zipf) = (Keys::Uniform(taxa), Keys::zipf(taxa));
        rows.push(phases::read("read, uniform", &keyspaces, limit, &uniform)?);
        rows.push(phases::read("read, zipf 0.99", &keyspaces, limit, &zipf)?);
        rows.push(phases::multi_get(&keyspaces, limit, &uniform)?);
        if let OpenKeyspace::Ordered(taxa) = &keyspaces.taxa {
            rows.push(phases::scan(&keyspaces, taxa, Limit { operations: limit.operations / 10, ..limit }, &uniform)?);
        }
        let (mixed, done) = phases::mixed(&keyspaces, limit, FIRST_ROUND)?;
        rows.push(mixed);
        let stats = database.stats();
        let held = ("held by the database", Some(stats.memory_held));
        let memory = [("budget", Some(stats.memory_budget)), held, ("peak of this process", memory::peak_of("self"))];
        database.close()?;
        // Last, since the memory of the expected state does not belong to the figures.
        ledger.replay(FIRST_ROUND, &done, false);
        Ok((rows, memory))
    }

    /// Starts a child process, and kills it.
    fn kill(&self, path: &Path, round: u32) -> Result<KilledChild, Failure> {
        let first = round == FIRST_ROUND + 1;
        let moment = match (first, self.small) {
            (true, true) => Moment::Working(Duration::from_millis(500)),
            (true, false) => Moment::Working(Duration::from_secs(5)),
            (false, _) => Moment::Anywhere(Duration::from_millis(rand::random_range(5..1500))),
        };
        let spinner = progress::spinner("a child process does the mixed workload and will be killed");
        let prey = hunt(self, path, round, moment);
        spinner.finish_and_clear();
        prey
    }

    /// Opens the database after a kill and checks it in two ways. Returns the number of acknowledged writes.
    fn reopen(
        &self,
        universe: &Universe,
        path: &Path,
        ledger: &mut ExpectedState,
        shapes: Shapes,
    ) -> Result<u64, Failure> {
        let began = Instant::now();
        let database = Database::builder(path).memory_budget(self.memory).create(false).open()?;
        let opened = began.elapsed();
        let keyspaces = DemoKeyspaces::open(&database, universe)?;
        // Counted before the scans below can convert a range.
        let paged_ranges = keyspaces.taxa.shapes().len();
        let (findings, acknowledged) = check::everything(&keyspaces, self.sizes(), ledger)?;
        let (records, pages) = check::verify(&database)?;
        drop(keyspaces);
        database.close()?;
        let opened =
            format!("killed and reopened in {:.2} s: {acknowledged} acknowledged writes", opened.as_secs_f64());
        let shaped = match self.engine {
            Engine::Adaptive => format!(", {paged_ranges} paged ranges; last seen {}", shapes.words()),
            _ => String::new(),
        };
        say(&format!("{opened}, {records} records on {pages} pages{shaped}"))?;
        findings.verdict(acknowledged)
    }
}

/// Prints a line and flushes it.
fn say(line: &str) -> Result<(), Failure> {
    let mut output = Output::new();
    output.line(&[line.as_bytes()])?;
    output.finish()
}
