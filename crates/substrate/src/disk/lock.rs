//! One opening of a directory at a time.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use ecotone_sys::file::{File, Open};
use parking_lot::Mutex;

use crate::{Error, Result};

/// The file that is locked. It holds nothing and stays when the database is closed.
const NAME: &str = "LOCK";
/// io_uring can keep the descriptors of a process alive a moment after its death, so the lock is asked for this often ...
const TRIES: usize = 11;
/// ... with this in between.
const PAUSE: Duration = Duration::from_millis(20);

/// The directories that this process has open, by canonical path. The file lock would tell too, but only after all tries.
static OPEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The lock on a directory, until drop.
#[derive(Debug)]
pub(super) struct Lock {
    /// Before the entry: fields are dropped in order, and once the entry is gone the lock must be free.
    _file: File,
    _entry: Entry,
}

/// An entry in [`OPEN`].
#[derive(Debug)]
struct Entry(PathBuf);

impl Lock {
    /// Locks a directory, given by its canonical path.
    pub(super) fn take(directory: &Path) -> Result<Lock> {
        let entry = Entry::new(directory)?;
        let path = directory.join(NAME);
        let file = File::open(&path, Open::Any, false).map_err(|error| Error::io("open", path.display(), error))?;
        for attempt in 1..=TRIES {
            if file.try_lock_exclusive().map_err(|error| Error::io("lock", path.display(), error))? {
                return Ok(Lock { _file: file, _entry: entry });
            }
            if attempt < TRIES {
                thread::sleep(PAUSE);
            }
        }
        Err(locked(directory))
    }
}

impl Entry {
    fn new(directory: &Path) -> Result<Entry> {
        if OPEN.lock().insert(directory.to_owned()) { Ok(Entry(directory.to_owned())) } else { Err(locked(directory)) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.0);
    }
}

fn locked(directory: &Path) -> Error {
    Error::Locked { path: directory.to_owned() }
}
