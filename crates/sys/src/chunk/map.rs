//! One chunk of anonymous memory from the system.

use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::CHUNK_BYTES;

/// A mapping of [`CHUNK_BYTES`] bytes: zeroed at first, aligned to a page of the system, unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
}

// SAFETY: the mapping is owned by this value alone and is memory like any other; no thread is special to it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `None` if the system gives no memory.
    pub(super) fn new() -> Option<Mapping> {
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that is not in use, so no memory of ours changes.
        let start = unsafe { mmap_anonymous(null_mut(), CHUNK_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        Some(Mapping { start: NonNull::new(start.ok()?.cast())? })
    }

    /// The first byte of the part that begins `offset` bytes into the mapping.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < CHUNK_BYTES);
        // SAFETY: `offset` lies inside the mapping, which is one allocation of CHUNK_BYTES bytes.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and the length are those of the mapping made in `new`; `Places` drops a mapping only when no block of it is
        // leased, so nothing points into it any more.
        let result = unsafe { munmap(self.start.as_ptr().cast(), CHUNK_BYTES) };
        if let Err(error) = result {
            tracing::error!(%error, "the system does not take a chunk of memory back");
        }
    }
}
