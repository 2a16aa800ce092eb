//! Single reads, by threads that poll a while before they sleep (waiting.md).

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use ecotone_sys::{
    file::{File, most_open},
    uring::Reader,
};
use parking_lot::Mutex;

/// The most readers, and the share of the process's files that they may take, since each needs a descriptor. If more
/// threads read at once, processors have enough to do while the others sleep.
const READERS: usize = 64;
const PART: usize = 16;
/// For longer reads a thread may as well sleep.
const LONGEST: usize = 64 << 10;

/// The readers of a directory.
#[derive(Debug)]
pub(super) struct Readers {
    most: usize,
    idle: Mutex<Vec<Reader>>,
    made: AtomicUsize,
}

impl Default for Readers {
    fn default() -> Self {
        Readers { most: (most_open() / PART).min(READERS), idle: Mutex::default(), made: AtomicUsize::new(0) }
    }
}

impl Readers {
    /// Like [`File::read_at`].
    pub(super) fn read(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let reader = if buffer.len() <= LONGEST { self.take() } else { None };
        let Some(reader) = reader else { return file.read_at(buffer, offset) };
        match reader.read_at(file, buffer, offset) {
            Ok((reader, count)) => {
                self.idle.lock().push(reader);
                Ok(count)
            }
            // A failed disk fails again here. A failed reader is gone but still counted, so that failing readers are
            // not made for ever.
            Err(_) => file.read_at(buffer, offset),
        }
    }

    /// A reader. `None` if the maximum is in use or the system refuses one.
    fn take(&self) -> Option<Reader> {
        if let Some(reader) = self.idle.lock().pop() {
            return Some(reader);
        }
        let reader = if self.made.fetch_add(1, Ordering::Relaxed) < self.most { Reader::new().ok() } else { None };
        reader.or_else(|| {
            self.forget();
            None
        })
    }

    fn forget(&self) {
        self.made.fetch_sub(1, Ordering::Relaxed);
    }
}
