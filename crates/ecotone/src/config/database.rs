//! Options of a database, and the checks of its directory and of the process that opens it.

use std::path::{Path, PathBuf};

use ecotone_substrate::storage::FileId;

use crate::{Durability, Error, Result, limits};

/// Default memory budget, in bytes.
const DEFAULT_BUDGET: usize = 256 << 20;

/// The options that a [`Builder`](crate::Builder) sets.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseOptions {
    pub(crate) path: PathBuf,
    pub(crate) memory_budget: usize,
    pub(crate) durability: Durability,
    pub(crate) create: bool,
    pub(crate) poll_disk: bool,
    pub(crate) workers: usize,
    pub(crate) table_cache: Option<usize>,
}

impl DatabaseOptions {
    pub(crate) fn new(path: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        DatabaseOptions {
            path: path.to_owned(),
            memory_budget: DEFAULT_BUDGET,
            durability: Durability::Buffered,
            create: true,
            poll_disk: true,
            workers: (2 * cores).clamp(4, 8),
            table_cache: None,
        }
    }

    /// Refuses a budget that is too small, and a process that may open too few files.
    pub(crate) fn check(&self) -> Result<()> {
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
    pub(crate) fn check_path(&self) -> Result<()> {
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
