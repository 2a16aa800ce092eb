//! Reads of one place, by threads that poll a while before they sleep (decision 13).

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use ecotone_sys::{file::File, uring::Reader};
use parking_lot::Mutex;

/// Readers at most, since each takes a file descriptor. Where more threads read at once, processors have enough to do while the others sleep.
const READERS: usize = 64;
/// Longer reads take so long that a thread may as well sleep.
const LONGEST: usize = 64 << 10;

/// The readers of a directory.
#[derive(Debug, Default)]
pub(super) struct Readers {
    idle: Mutex<Vec<Reader>>,
    made: AtomicUsize,
}

impl Readers {
    /// As [`File::read_at`].
    pub(super) fn read(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let reader = if buffer.len() <= LONGEST { self.take() } else { None };
        let Some(reader) = reader else { return file.read_at(buffer, offset) };
        let (reader, count) = reader.read_at(file, buffer, offset).inspect_err(|_| self.forget())?;
        self.idle.lock().push(reader);
        Ok(count)
    }

    /// A reader, unless as many as there may be are at work or the system refuses one.
    fn take(&self) -> Option<Reader> {
        if let Some(reader) = self.idle.lock().pop() {
            return Some(reader);
        }
        let reader = if self.made.fetch_add(1, Ordering::Relaxed) < READERS { Reader::new().ok() } else { None };
        reader.or_else(|| {
            self.forget();
            None
        })
    }

    fn forget(&self) {
        self.made.fetch_sub(1, Ordering::Relaxed);
    }
}
