//! The real [`Storage`]: one directory of the file system.
//!
//! Requests go through io_uring if the kernel has and allows it, otherwise through blocking calls. The choice is made
//! once, at open, and logged. `docs/format/disk.md` says what is assumed of the disk.

mod counters;
mod descriptors;
mod file;
mod gate;
mod lock;
mod queue;
mod readers;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_sys::{
    blocking::Blocking,
    file::{self as system, most_open},
    transfer, uring,
};
use parking_lot::Mutex;

use self::{
    counters::Tally, descriptors::Descriptors, file::DiskFile, gate::Gate, lock::Lock, queue::DiskQueue,
    readers::Readers,
};
use crate::{
    Error, Result,
    storage::{Access, Counters, File, FileId, FileKind, Queue, Storage},
};

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring, with threads that poll a while before they sleep (waiting.md).
    Uring,
    /// io_uring, with threads that sleep until the disk has answered.
    SleepingUring,
    /// `pread` and `pwrite`.
    Blocking,
}

impl Driver {
    /// io_uring if it works here, with threads that poll if `polls`.
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

/// The rings of queues may take one of this many of the process's files.
const RINGS_PART: usize = 16;

/// A driver and the data that a queue keeps of each request in it.
type Transfers = Box<dyn transfer::Driver<queue::Origin>>;

/// A database directory, locked against a second opening until it is [closed](Storage::close), or the last file and
/// queue of it are dropped.
#[derive(Debug)]
pub struct Disk {
    directory: Arc<Directory>,
}

/// State shared by the disk, its files and its queues.
#[derive(Debug)]
struct Directory {
    /// The path at open, for messages. Files are opened through the directory's handle, so they are the right ones even
    /// if the directory was moved.
    path: PathBuf,
    handle: Arc<system::Directory>,
    gate: Gate,
    driver: Driver,
    tally: Tally,
    /// Idle drivers.
    pool: Mutex<Vec<Transfers>>,
    /// Number of working rings.
    rings: AtomicUsize,
    readers: Readers,
    descriptors: Arc<Descriptors>,
    /// The directory lock, until close.
    lock: Mutex<Option<Lock>>,
}

impl Disk {
    /// Opens a directory, with io_uring if it works here. With `create`, a missing directory is made (mode 0700; its
    /// parent must exist) and an empty one is accepted. Without, the directory must contain database files.
    ///
    /// # Errors
    /// [`Locked`](Error::Locked) if it is open elsewhere, [`NotADatabase`](Error::NotADatabase), [`Io`](Error::Io).
    pub fn open(path: impl AsRef<Path>, create: bool) -> Result<Disk> {
        Self::with_driver(path, create, Driver::found(true))
    }

    /// Like [`open`](Self::open), with a given driver.
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
        let handle = system::Directory::open(&path).map_err(|error| Error::io("open", path.display(), error))?;
        if !create && list(&handle, &path)?.is_empty() {
            return Err(not_a_database(&path, "the directory holds none of its files"));
        }
        let lock = Mutex::new(Some(Lock::take(&handle, &path)?));
        tracing::info!(?driver, path = %path.display(), "opened the directory");
        let (gate, tally, pool, rings, readers) = Default::default();
        let handle = Arc::new(handle);
        let directory = Directory { path, handle, gate, driver, tally, pool, rings, readers, descriptors, lock };
        Ok(Disk { directory: Arc::new(directory) })
    }

    /// How requests of queues reach the kernel.
    pub fn driver(&self) -> Driver {
        self.directory.driver
    }
}

impl Storage for Disk {
    fn list(&self) -> Result<Vec<FileId>> {
        list(&self.directory.handle, &self.directory.path)
    }

    fn create(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        let _pass = self.directory.gate.enter()?;
        Ok(Arc::new(DiskFile::open(&self.directory, id, access, system::Open::New)?))
    }

    fn open(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        self.directory.gate.check()?;
        Ok(Arc::new(DiskFile::open(&self.directory, id, access, system::Open::Existing)?))
    }

    fn remove(&self, id: FileId) -> Result<()> {
        let _pass = self.directory.gate.enter()?;
        let failed = |action, error| Error::io(action, self.directory.path_of(id).display(), error);
        if id.keyspace().is_some() {
            self.directory.descriptors.keep(id).map_err(|error| failed("open", error))?;
        }
        self.directory.handle.remove(&id.to_string()).map_err(|error| failed("remove", error))
    }

    fn sync_dir(&self) -> Result<()> {
        let _pass = self.directory.gate.enter()?;
        self.directory.tally.sync(FileKind::Directory);
        sync_directory(&self.directory.handle, &self.directory.path)
    }

    fn close(&self) {
        self.directory.gate.close();
        drop(self.directory.lock.lock().take());
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        self.directory.gate.check()?;
        let pooled = self.directory.pool.lock().pop();
        let driver = pooled.unwrap_or_else(|| self.directory.new_driver());
        Ok(Box::new(DiskQueue::new(self.directory.clone(), driver)))
    }

    fn free_space(&self) -> Result<u64> {
        let free = self.directory.handle.free_space();
        free.map_err(|error| Error::io("look for space in", self.directory.path.display(), error))
    }

    fn counters_of(&self, kind: FileKind) -> Counters {
        self.directory.tally.read(kind)
    }
}

impl Directory {
    fn path_of(&self, id: FileId) -> PathBuf {
        self.path.join(id.to_string())
    }

    /// A ring, or a blocking driver if the system has no ring to give.
    fn new_driver(&self) -> Transfers {
        if self.driver == Driver::Blocking {
            return Box::new(Blocking::default());
        }
        if self.rings.fetch_add(1, Ordering::Relaxed) < most_open() / RINGS_PART {
            match uring::Ring::new(self.driver == Driver::Uring) {
                Ok(ring) => return Box::new(ring),
                Err(error) => {
                    tracing::debug!(%error, "no io_uring for a queue: its requests are done one after the other")
                }
            }
        }
        self.rings.fetch_sub(1, Ordering::Relaxed);
        Box::new(Blocking::for_once())
    }
}

fn not_a_database(path: &Path, why: &str) -> Error {
    Error::NotADatabase { path: path.to_owned(), why: why.to_owned() }
}

/// Makes the directory, with its name durable, unless it exists.
fn create_directory(path: &Path) -> Result<()> {
    match system::create_directory(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        result => result.map_err(|error| Error::io("create the directory", path.display(), error))?,
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let handle =
        system::Directory::open(parent).map_err(|error| Error::io("open the directory", parent.display(), error))?;
    sync_directory(&handle, parent)
}

fn sync_directory(handle: &system::Directory, path: &Path) -> Result<()> {
    handle.sync().map_err(|error| Error::io("sync the directory", path.display(), error))
}

fn list(handle: &system::Directory, path: &Path) -> Result<Vec<FileId>> {
    let names = handle.names().map_err(|error| Error::io("list", path.display(), error))?;
    Ok(names.iter().filter_map(|name| FileId::parse(name.to_str()?)).collect())
}
