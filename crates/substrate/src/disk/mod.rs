//! The real [`Storage`]: one directory of the file system.
//!
//! Requests go through io_uring where the kernel has it and allows it, else through blocking calls; the choice is made once, at open, and said
//! in the log. What is assumed of the disk is in `docs/format/disk.md`.

mod counters;
mod descriptors;
mod file;
mod lock;
mod queue;
mod readers;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ecotone_sys::{blocking::Blocking, file as system, transfer, uring};
use parking_lot::Mutex;

use self::{counters::Tally, descriptors::Descriptors, file::DiskFile, lock::Lock, queue::DiskQueue, readers::Readers};
use crate::{
    Error, Result,
    storage::{Access, Counters, File, FileId, FileKind, Queue, Storage},
};

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring, by threads that poll a while before they sleep (decision 13).
    Uring,
    /// io_uring, by threads that sleep until the disk has answered.
    SleepingUring,
    /// `pread` and `pwrite`.
    Blocking,
}

impl Driver {
    /// io_uring if it works here, by threads that poll or do not.
    pub fn found(polls: bool) -> Driver {
        match uring::probe() {
            Ok(()) if polls => Driver::Uring,
            Ok(()) => Driver::SleepingUring,
            Err(error) => {
                tracing::warn!(%error, "io_uring does not work here: I/O blocks, one request after the other");
                Driver::Blocking
            }
        }
    }
}

/// What a queue keeps of a request while a driver works on it.
type Transfers = Box<dyn transfer::Driver<queue::Origin>>;

/// A database directory, locked against a second opening until the last file and queue of it are dropped.
#[derive(Debug)]
pub struct Disk {
    directory: Arc<Directory>,
}

/// What the disk, its files and its queues share.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    driver: Driver,
    tally: Tally,
    /// Idle drivers.
    pool: Mutex<Vec<Transfers>>,
    readers: Readers,
    descriptors: Arc<Descriptors>,
    /// Held, not used.
    _lock: Lock,
}

impl Disk {
    /// Opens a directory, with io_uring if it works here. With `create` a missing directory is made (mode 0700; its parent must be there) and an
    /// empty one is accepted; without, the directory must hold files of ours.
    ///
    /// # Errors
    /// [`Locked`](Error::Locked) if it is open elsewhere, [`NotADatabase`](Error::NotADatabase), [`Io`](Error::Io).
    pub fn open(path: impl AsRef<Path>, create: bool) -> Result<Disk> {
        Self::with_driver(path, create, Driver::found(true))
    }

    /// As [`open`](Self::open), with a given driver.
    pub fn with_driver(path: impl AsRef<Path>, create: bool, driver: Driver) -> Result<Disk> {
        Self::with_descriptors(path.as_ref(), create, driver, Descriptors::of_process())
    }

    fn with_descriptors(path: &Path, create: bool, driver: Driver, descriptors: Arc<Descriptors>) -> Result<Disk> {
        if create {
            create_directory(path)?;
        }
        let path = path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_a_database(path, "there is no such directory"),
            _ => Error::io("open", path.display(), error),
        })?;
        if !path.is_dir() {
            return Err(not_a_database(&path, "it is not a directory"));
        }
        if !create && list(&path)?.is_empty() {
            return Err(not_a_database(&path, "the directory holds none of its files"));
        }
        let lock = Lock::take(&path)?;
        tracing::info!(?driver, path = %path.display(), "opened the directory");
        let (tally, pool, readers) = Default::default();
        let directory = Directory { path, driver, tally, pool, readers, descriptors, _lock: lock };
        Ok(Disk { directory: Arc::new(directory) })
    }

    /// How requests of queues reach the kernel.
    pub fn driver(&self) -> Driver {
        self.directory.driver
    }
}

impl Storage for Disk {
    fn list(&self) -> Result<Vec<FileId>> {
        list(&self.directory.path)
    }

    fn create(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        Ok(Arc::new(DiskFile::open(&self.directory, id, access, system::Open::New)?))
    }

    fn open(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        Ok(Arc::new(DiskFile::open(&self.directory, id, access, system::Open::Existing)?))
    }

    fn remove(&self, id: FileId) -> Result<()> {
        let path = self.directory.path_of(id);
        if id.kind() == FileKind::Table {
            self.directory.descriptors.keep(id).map_err(|error| Error::io("open", path.display(), error))?;
        }
        fs::remove_file(&path).map_err(|error| Error::io("remove", path.display(), error))
    }

    fn sync_dir(&self) -> Result<()> {
        self.directory.tally.sync(FileKind::Directory);
        sync_directory(&self.directory.path)
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        let pooled = self.directory.pool.lock().pop();
        let driver = match pooled {
            Some(driver) => driver,
            None => self.directory.new_driver()?,
        };
        Ok(Box::new(DiskQueue::new(self.directory.clone(), driver)))
    }

    fn counters_of(&self, kind: FileKind) -> Counters {
        self.directory.tally.read(kind)
    }
}

impl Directory {
    fn path_of(&self, id: FileId) -> PathBuf {
        self.path.join(id.to_string())
    }

    fn new_driver(&self) -> Result<Transfers> {
        match self.driver {
            Driver::Blocking => Ok(Box::new(Blocking::default())),
            Driver::Uring | Driver::SleepingUring => match uring::Ring::new(self.driver == Driver::Uring) {
                Ok(ring) => Ok(Box::new(ring)),
                Err(error) => Err(Error::io("make an io_uring for", self.path.display(), error)),
            },
        }
    }
}

fn not_a_database(path: &Path, why: &str) -> Error {
    Error::NotADatabase { path: path.to_owned(), why: why.to_owned() }
}

/// Makes the directory, its name durable, unless it is there.
fn create_directory(path: &Path) -> Result<()> {
    match system::create_directory(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        result => result.map_err(|error| Error::io("create the directory", path.display(), error))?,
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_directory(parent.unwrap_or(Path::new(".")))
}

fn sync_directory(path: &Path) -> Result<()> {
    system::sync_directory(path).map_err(|error| Error::io("sync the directory", path.display(), error))
}

fn list(path: &Path) -> Result<Vec<FileId>> {
    let failed = |error| Error::io("list", path.display(), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        files.extend(entry.map_err(failed)?.file_name().to_str().and_then(FileId::parse));
    }
    Ok(files)
}
