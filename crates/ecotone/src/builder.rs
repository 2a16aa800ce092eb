//! Options and opening of a database.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ecotone_adaptive::AdaptiveFamily;
use ecotone_engine::contract::EngineFactory;
use ecotone_hash::HashFamily;
use ecotone_lsm::LsmFamily;
use ecotone_substrate::{
    clock::{Clock, SystemClock},
    disk::{Disk, Driver},
    environment::Environment,
    health::Health,
    memory::Memory,
    scheduler::Scheduler,
    storage::{FileId, Storage},
};
use ecotone_tree::TreeFamily;

use crate::{Database, Durability, Error, Result, limits, recovery};

/// Default memory budget, in bytes.
const DEFAULT_BUDGET: usize = 256 << 20;

/// Options of a database. [`open`](Self::open) opens it.
#[derive(Debug, Clone)]
pub struct Builder {
    path: PathBuf,
    pub(crate) memory_budget: usize,
    pub(crate) durability: Durability,
    pub(crate) create: bool,
    poll_disk: bool,
    workers: usize,
    table_cache: Option<usize>,
}

/// The components that tests replace.
#[derive(Debug)]
pub struct Components {
    /// The directory, real or simulated.
    pub storage: Arc<dyn Storage>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
    /// The number of background workers; 0 makes a manual scheduler.
    pub workers: usize,
    /// The engine factories that keyspaces can use.
    pub families: Vec<Arc<dyn EngineFactory>>,
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Builder {
            path: path.to_owned(),
            memory_budget: DEFAULT_BUDGET,
            durability: Durability::Buffered,
            create: true,
            poll_disk: true,
            workers: (2 * cores).clamp(4, 8),
            table_cache: None,
        }
    }

    /// Sets the memory budget in bytes: caches, indexes, log buffers, I/O buffers and everything else that grows.
    /// Default 256 MiB, at least 16 MiB ([`limits::MIN_BUDGET`]). The budget is a limit that is kept by accounting, not
    /// a hint. The program's own code, its stacks and the results that it holds come on top.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Sets the memory limit for indexes and filters of lsm keyspaces, in bytes. Default: their share of the budget.
    pub fn table_cache(mut self, bytes: usize) -> Self {
        self.table_cache = Some(bytes);
        self
    }

    /// Sets the durability of writes that do not choose one. Default [`Durability::Buffered`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether a missing database is created (default) or is an error.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether a thread that waits for the disk polls for a while before it sleeps (default). Between two polls it
    /// yields to other threads. Polling shortens waits and raises throughput, at the cost of processor time that would
    /// be idle otherwise. Turn it off where processor time is rationed or costs battery. A slow disk is hardly polled
    /// in any case.
    pub fn poll_disk(mut self, poll: bool) -> Self {
        self.poll_disk = poll;
        self
    }

    /// Opens the database and replays its log.
    ///
    /// # Errors
    /// - [`Error::Locked`] if the database is open elsewhere.
    /// - [`Error::NotADatabase`] if the path holds something else, or nothing while [`create`](Self::create) is off.
    /// - [`Error::Corruption`] and [`Error::NewerFormat`] name the file.
    /// - [`Error::Io`] for missing permissions.
    pub fn open(self) -> Result<Database> {
        self.check()?;
        self.check_path()?;
        let storage = Arc::new(Disk::with_driver(&self.path, self.create, Driver::found(self.poll_disk))?);
        let tree = TreeFamily::default();
        let lsm = self
            .table_cache
            .map_or_else(LsmFamily::default, LsmFamily::with_table_cache)
            .behind(Arc::new(tree.clone()));
        let adaptive = AdaptiveFamily::beside(&lsm, &tree);
        let families: Vec<Arc<dyn EngineFactory>> =
            vec![Arc::new(tree), Arc::new(lsm), Arc::new(HashFamily::default()), Arc::new(adaptive)];
        let parts = Components { storage, clock: Arc::new(SystemClock::default()), workers: self.workers, families };
        recovery::open(&self, parts)
    }

    #[doc(hidden)]
    pub fn open_parts(self, parts: Components) -> Result<Database> {
        self.check()?;
        recovery::open(&self, parts)
    }

    /// The path, for error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The environment that the files of `database` are created or opened with.
    pub(crate) fn environment(&self, parts: &Components, database: u64) -> Environment {
        let health: Arc<Health> = Arc::default();
        let scheduler = match parts.workers {
            0 => Scheduler::manual(health.clone()),
            workers => Scheduler::threaded(workers, health.clone()),
        };
        Environment {
            database,
            storage: parts.storage.clone(),
            memory: Memory::new(self.memory_budget),
            scheduler,
            health,
        }
    }

    fn check(&self) -> Result<()> {
        let files = ecotone_sys::file::most_open();
        if files < limits::MIN_FILES {
            let least = limits::MIN_FILES;
            return Err(Error::Invalid(format!(
                "this process may have {files} files open, and a database needs {least}; raise the limit (ulimit -n)"
            )));
        }
        if self.memory_budget < limits::MIN_BUDGET {
            let (limit, actual) = (limits::MIN_BUDGET as u64, self.memory_budget as u64);
            return Err(Error::Limit { what: "the memory budget in bytes", limit, actual });
        }
        Ok(())
    }

    /// Refuses a directory that holds files of other programs.
    fn check_path(&self) -> Result<()> {
        let not_ours = |why: &str| Err(Error::NotADatabase { path: self.path.clone(), why: why.to_owned() });
        if !self.path.exists() {
            return if self.create { Ok(()) } else { not_ours("there is nothing at this path") };
        }
        if !self.path.is_dir() {
            return not_ours("it is a file, and a database is a directory");
        }
        let entries = std::fs::read_dir(&self.path).map_err(|error| Error::io("read", self.path.display(), error))?;
        let names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        let ours = |name: &std::ffi::OsString| name.to_str().is_some_and(is_ours);
        match names.iter().any(ours) {
            true => Ok(()),
            false if names.is_empty() && self.create => Ok(()),
            false if names.is_empty() => not_ours("the directory is empty"),
            false => not_ours("the directory holds other files"),
        }
    }
}

/// Fails unless a new database can be created at `path` without touching anything: nothing is there, or an empty
/// directory.
pub(crate) fn check_vacant(path: &Path) -> Result<()> {
    let vacant = match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let taken = || Error::Invalid(format!("{} is not an empty directory; give a new path", path.display()));
    if vacant { Ok(()) } else { Err(taken()) }
}

/// Whether only Ecotone creates files of this name. `log.1` alone may be the rotated log of another program, and
/// creating a database would remove it. An interrupted creation has the lock file beside its log.
fn is_ours(name: &str) -> bool {
    name == "LOCK" || matches!(FileId::parse(name), Some(FileId::Manifest(_)))
}
