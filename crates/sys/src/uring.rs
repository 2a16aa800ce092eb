//! The driver for Linux with io_uring.

use std::{
    fmt, io, mem,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
};

use io_uring::{IoUring, opcode, squeue, types::Fd};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
};

use crate::{
    chunk::{Arena, CHUNK_BYTES, Size},
    file::File,
    transfer::{Driver, ENTRIES, Finished, Transfer},
};

/// A transfer that the kernel may be working on, and the bytes of it that are done.
#[derive(Debug)]
struct Pending<C> {
    transfer: Transfer<C>,
    done: usize,
}

/// An io_uring with the transfers it works on. Dropping it waits for all of them.
pub struct Ring<C> {
    ring: IoUring,
    /// By the number that the kernel gives back. Each has at most one entry in the ring, so the ring's queues never overflow.
    slots: Vec<Option<Pending<C>>>,
    free: Vec<usize>,
    ready: Vec<Finished<C>>,
}

impl<C> Ring<C> {
    /// Makes a ring for [`ENTRIES`] transfers. Fails where the system has no io_uring, forbids it or is short of resources.
    pub fn new() -> io::Result<Self> {
        let entries = ENTRIES as u32;
        // Saves interrupting the thread for each completion; kernels before 5.19 do not know it.
        let ring = IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))?;
        let slots = (0..ENTRIES).map(|_| None).collect();
        Ok(Ring { ring, slots, free: (0..ENTRIES).rev().collect(), ready: Vec::new() })
    }

    fn pending(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts the rest of the transfer in `slot` into the submission queue.
    fn push(&mut self, slot: usize) {
        let Some(Pending { transfer, done }) = &mut self.slots[slot] else { return };
        let fd = Fd(transfer.file.as_fd().as_raw_fd());
        let offset = transfer.offset + *done as u64;
        let bytes = &mut transfer.block[*done..transfer.len];
        let len = bytes.len() as u32;
        let entry = match transfer.write {
            true => opcode::Write::new(fd, bytes.as_ptr(), len).offset(offset).build(),
            false => opcode::Read::new(fd, bytes.as_mut_ptr(), len).offset(offset).build(),
        };
        self.enqueue(&entry.user_data(slot as u64));
    }

    fn enqueue(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry names a file and bytes that the transfer in its slot owns. The slot is emptied only by `finish`, when the kernel
        // is done with the entry, and `drop` waits for that (or leaks the slots), so both outlive the kernel's use. No reference to the
        // bytes is made while the slot is full.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "a slot has one entry in the ring, and there are as many entries as slots");
    }

    /// Hands what was pushed to the kernel and waits for `want` completions. May return early.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => Ok(()),
                Some(Errno::AGAIN | Errno::BUSY) => {
                    // The kernel is short of memory for requests for the moment.
                    std::thread::yield_now();
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Takes over what the kernel has completed.
    fn reap(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            self.advance(entry.user_data() as usize, entry.result());
        }
    }

    /// Notes the kernel's answer for a slot, and goes on with a transfer that is not whole.
    fn advance(&mut self, slot: usize, answer: i32) {
        let Some(Pending { transfer, done }) = &mut self.slots[slot] else { return };
        let result = match usize::try_from(answer) {
            Ok(count) => step(transfer, done, count),
            Err(_) => match Errno::from_raw_os_error(-answer) {
                Errno::INTR | Errno::AGAIN => None,
                error => Some(Err(error.into())),
            },
        };
        match result {
            None => self.push(slot),
            Some(result) => self.finish(slot, result),
        }
    }

    fn finish(&mut self, slot: usize, result: io::Result<usize>) {
        if let Some(Pending { transfer, .. }) = self.slots[slot].take() {
            self.free.push(slot);
            self.ready.push(Finished { transfer, result });
        }
    }

    /// Waits until `wanted` finished transfers are ready.
    fn wait(&mut self, wanted: usize) -> io::Result<()> {
        self.enter(wanted.saturating_sub(self.ready.len()))?;
        self.reap();
        while self.ready.len() < wanted {
            self.enter(wanted - self.ready.len())?;
            self.reap();
        }
        Ok(())
    }

    fn wait_or_panic(&mut self, wanted: usize) {
        // What is left after `enter` are answers to a misused or forbidden call. The kernel may own blocks, so there is no way on.
        self.wait(wanted).unwrap_or_else(|error| panic!("io_uring stopped working: {error}"));
    }
}

/// Adds `count` transferred bytes; the result of the transfer if that was all of it.
fn step<C>(transfer: &Transfer<C>, done: &mut usize, count: usize) -> Option<io::Result<usize>> {
    if *done + count >= transfer.len {
        return Some(Ok(transfer.len));
    }
    let usable = transfer.file.resume_after(count);
    *done += usable;
    match (usable, transfer.write) {
        (0, true) => Some(Err(io::ErrorKind::WriteZero.into())),
        (0, false) => Some(Ok(*done + count)),
        _ => None,
    }
}

impl<C: Send + fmt::Debug> Driver<C> for Ring<C> {
    fn submit(&mut self, transfer: Transfer<C>) {
        assert!(transfer.len <= transfer.block.len(), "a transfer longer than its block");
        while self.free.is_empty() {
            self.wait_or_panic(self.ready.len() + 1);
        }
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(Pending { transfer, done: 0 });
            self.push(slot);
        }
    }

    fn complete(&mut self, at_least: usize, done: &mut Vec<Finished<C>>) {
        self.wait_or_panic(at_least.min(self.in_flight()));
        done.append(&mut self.ready);
    }

    fn in_flight(&self) -> usize {
        self.pending() + self.ready.len()
    }
}

impl<C> Drop for Ring<C> {
    fn drop(&mut self) {
        let all = self.ready.len() + self.pending();
        if let Err(error) = self.wait(all) {
            tracing::error!(%error, "io_uring stopped working; the memory of its requests is lost");
            mem::forget(mem::take(&mut self.slots));
        }
    }
}

impl<C> fmt::Debug for Ring<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("pending", &self.pending()).field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

/// Tries whether rings can be made here and read and write work. Not cached: ask once.
pub fn probe() -> io::Result<()> {
    let file = Arc::new(File::from_fd(memfd_create("ecotone-probe", MemfdFlags::CLOEXEC)?, false)?);
    let arena = Arena::new(CHUNK_BYTES);
    let mut ring = Ring::new()?;
    let mut done = Vec::new();
    for write in [true, false] {
        let mut block = arena.lease(Size::Frame, 0).ok_or(io::ErrorKind::OutOfMemory)?;
        let len = block.len();
        block.fill(if write { 0xA5 } else { 0 });
        ring.submit(Transfer { file: file.clone(), write, offset: 0, block, len, context: () });
        ring.wait(1)?;
        done.append(&mut ring.ready);
    }
    let same = done.pop().is_some_and(|read| read.result.is_ok() && read.transfer.block.iter().all(|byte| *byte == 0xA5));
    if same { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
