//! The lock of a directory: one process or handle at a time has it open.

use std::{collections::BTreeSet, path::Path, thread, time::Duration};

use ecotone_sys::{
    file::{Directory, File, Open},
    process::Life,
};
use parking_lot::Mutex;

use crate::{Error, Result};

/// The lock file. It is empty and stays when the database is closed.
const NAME: &str = "LOCK";
/// Number of tries to take the lock, since io_uring can keep the descriptors of a process alive a moment after its
/// death.
const TRIES: usize = 11;
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The directories that this process has open, with its process identity: a forked process does not own its parent's.
/// The file lock would show that too, but only after all tries.
static OPEN: Mutex<BTreeSet<(Life, Identity)>> = Mutex::new(BTreeSet::new());

/// Identity of a directory while it is open.
type Identity = (u64, u64);

/// The lock on a directory, until drop.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    entry: Entry,
}

/// An entry in [`OPEN`].
#[derive(Debug)]
struct Entry(Life, Identity);

impl Lock {
    /// Locks the directory at this path.
    pub(super) fn take(directory: &Directory, path: &Path) -> Result<Lock> {
        let failed = |action, error| Error::io(action, path.join(NAME).display(), error);
        let entry = Entry::new(directory.identity().map_err(|error| failed("look at", error))?, path)?;
        let file = directory.open_file(NAME, Open::Any, false).map_err(|error| failed("open", error))?;
        for attempt in 1..=TRIES {
            if file.try_lock_exclusive().map_err(|error| failed("lock", error))? {
                return Ok(Lock { file, entry });
            }
            if attempt < TRIES {
                thread::sleep(PAUSE);
            }
        }
        Err(locked(path))
    }
}

impl Drop for Lock {
    /// Unlocks before the entry is removed: a thread that finds no entry expects to get the lock.
    fn drop(&mut self) {
        if self.entry.0.is_over() {
            return;
        }
        // Not left to closing the file: the kernel, or a forked process, may have it open for longer.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "the lock goes with its file");
        }
    }
}

impl Entry {
    fn new(identity: Identity, path: &Path) -> Result<Entry> {
        let life = Life::present();
        let is_new = OPEN.lock().insert((life, identity));
        if is_new { Ok(Entry(life, identity)) } else { Err(locked(path)) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        OPEN.lock().remove(&(self.0, self.1));
    }
}

fn locked(path: &Path) -> Error {
    Error::Locked { path: path.to_owned() }
}
