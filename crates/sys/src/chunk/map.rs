//! A mapping of anonymous memory from the system.

use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The alignment of a mapping: a huge page of x86-64, and of AArch64 with pages of 4 KiB.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A mapping: zeroed at first, aligned to [`HUGE_PAGE`], made of huge pages where the system gives them, and unmapped
/// on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value alone and is memory like any other; no thread is special to it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `bytes` is a multiple of the system's page. `None` if the system gives no memory.
    pub(super) fn new(bytes: usize) -> Option<Mapping> {
        let wide = bytes + HUGE_PAGE;
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that is not in use, so no memory of
        // ours changes.
        let start = unsafe { mmap_anonymous(null_mut(), wide, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let start: NonNull<u8> = NonNull::new(start.ok()?.cast())?;
        let before = start.addr().get().next_multiple_of(HUGE_PAGE) - start.addr().get();
        // SAFETY: `before` is below HUGE_PAGE, so the aligned start and, `bytes` behind it, the end lie inside the
        // mapping of `wide` bytes.
        let (aligned, end) = unsafe { (start.add(before), start.add(before + bytes)) };
        // SAFETY: these are the edges of the mapping just made, into which nobody points.
        unsafe {
            unmap(start, before);
            unmap(end, HUGE_PAGE - before);
        }
        // SAFETY: the range is the one just mapped, and the advice changes nothing that is in it.
        if let Err(error) = unsafe { madvise(aligned.as_ptr().cast(), bytes, Advice::LinuxHugepage) } {
            tracing::debug!(%error, "the system has no huge pages to give");
        }
        Some(Mapping { start: aligned, bytes })
    }

    /// The length in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The byte at `offset` in the mapping.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes);
        // SAFETY: `offset` lies inside the mapping, which is one allocation of `bytes` bytes.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone; `Places` drops it only when no block of it is leased, so nothing
        // points into it.
        unsafe { unmap(self.start, self.bytes) }
    }
}

/// Gives a part of a mapping back to the system.
///
/// # Safety
/// The range is part of a mapping of the caller's own, and nothing points into it any more.
unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { munmap(start.as_ptr().cast(), bytes) } {
        tracing::error!(%error, "the system does not take memory back");
    }
}
