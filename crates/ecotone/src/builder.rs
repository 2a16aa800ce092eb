//! How a database is opened.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ecotone_engines::{adaptive::AdaptiveFamily, engine::Family, hash::HashFamily, lsm::LsmFamily, tree::TreeFamily};
use ecotone_substrate::{
    clock::{Clock, SystemClock},
    disk::{Disk, Driver},
    environment::Environment,
    health::Health,
    memory::Memory,
    scheduler::Scheduler,
    storage::{FileId, Storage},
};

use crate::{Database, Durability, Error, Result, limits, recovery};

/// Memory for a database that was not told otherwise.
const DEFAULT_BUDGET: usize = 256 << 20;

/// Options of a database. Few, with defaults that hold.
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

/// The parts that tests replace.
#[derive(Debug)]
pub struct Parts {
    /// The directory, real or simulated.
    pub storage: Arc<dyn Storage>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
    /// Background workers; 0 makes a manual scheduler.
    pub workers: usize,
    /// The engines that keyspaces can have.
    pub families: Vec<Arc<dyn Family>>,
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

    /// The memory that the database may use, in bytes: caches, indexes, log buffers, I/O buffers, everything that
    /// grows. Default 256 MiB, at least 16 MiB ([`limits::MIN_BUDGET`]). It is a limit, kept by accounting, not a hint;
    /// the program's own code, stacks and what it holds of results come on top.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Bytes of the memory that indexes and filters of lsm keyspaces have at most. Default: what their share of the
    /// budget comes to.
    pub fn table_cache(mut self, bytes: usize) -> Self {
        self.table_cache = Some(bytes);
        self
    }

    /// The durability of writes that do not say otherwise; the default is [`Durability::Buffered`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether a missing database is made (default) or an error.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether a thread that waits for the disk gives way to others a while, and looks, before it sleeps (default). It
    /// gets its answer sooner, and more threads get theirs, for processor time that would be idle otherwise. Turn it
    /// off where processor time is rationed or costs battery. A slow disk is hardly polled in any case.
    pub fn poll_disk(mut self, poll: bool) -> Self {
        self.poll_disk = poll;
        self
    }

    /// Opens the database, recovering what its log holds.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open elsewhere; [`Error::NotADatabase`] for a path that holds something else, or
    /// nothing while [`create`](Self::create) is off; [`Error::Corruption`] and [`Error::NewerFormat`] name the file;
    /// [`Error::Io`] for missing permissions.
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
        let families: Vec<Arc<dyn Family>> =
            vec![Arc::new(tree), Arc::new(lsm), Arc::new(HashFamily::default()), Arc::new(adaptive)];
        let parts = Parts { storage, clock: Arc::new(SystemClock::default()), workers: self.workers, families };
        recovery::open(&self, parts)
    }

    #[doc(hidden)]
    pub fn open_parts(self, parts: Parts) -> Result<Database> {
        self.check()?;
        recovery::open(&self, parts)
    }

    /// The place in error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the files of `database` are made or opened with.
    pub(crate) fn environment(&self, parts: &Parts, database: u64) -> Environment {
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

    /// A directory with files of others in it is not turned into a database.
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

/// Fails unless a new database can be made at `path` without touching anything: there is nothing, or an empty
/// directory.
pub(crate) fn check_vacant(path: &Path) -> Result<()> {
    let vacant = match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let taken = || Error::Invalid(format!("{} is not an empty directory; give a new path", path.display()));
    if vacant { Ok(()) } else { Err(taken()) }
}

/// Whether only Ecotone makes files of this name. `log.1` alone is somebody's rotated log, which making a database
/// would remove; what an interrupted creation left has the lock file beside it.
fn is_ours(name: &str) -> bool {
    name == "LOCK" || matches!(FileId::parse(name), Some(FileId::Manifest(_)))
}
