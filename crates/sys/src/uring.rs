//! The driver for Linux with io_uring.

use std::{
    collections::VecDeque,
    fmt, io, mem,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
    thread,
    time::Duration,
};

use io_uring::{IoUring, opcode, squeue, types::Fd};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
};

use crate::{
    chunk::{Arena, CHUNK_BYTES, Size},
    file::File,
    spin::Patience,
    transfer::{Driver, ENTRIES, Finished, Transfer},
};

/// The interval at which a thread that the kernel cannot wake looks for completions.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// A transfer that the kernel may be working on, and the bytes of it that are done.
#[derive(Debug)]
struct Pending<C> {
    transfer: Transfer<C>,
    done: usize,
}

/// An io_uring with the transfers it works on. Dropping it waits for all of them.
///
/// The system may forbid io_uring after the ring was made (a sandbox that is put up later). Then the ring is broken:
/// the kernel completes the entries that it has taken, which shows in memory that both share. The other transfers are
/// done one after the other without the ring.
pub struct Ring<C> {
    ring: IoUring,
    /// Slots whose entry the kernel had not taken at the last call, in the order in which they were pushed.
    pushed: VecDeque<usize>,
    /// The error that broke the ring.
    broken: Option<io::Error>,
    /// The transfers, by the number that the kernel gives back. Each has at most one entry in the ring, so the ring's
    /// queues never overflow.
    slots: Vec<Option<Pending<C>>>,
    free: Vec<usize>,
    ready: Vec<Finished<C>>,
    patience: Patience,
}

/// A ring of so many entries.
fn ring_of(entries: u32) -> io::Result<IoUring> {
    // Saves an interrupt of the thread for each completion; kernels before 5.19 do not know the flag.
    IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))
}

impl<C> Ring<C> {
    /// Makes a ring for [`ENTRIES`] transfers; `polls` says whether its thread polls a while before it sleeps. Fails
    /// where the system has no io_uring, forbids it or is short of resources.
    pub fn new(polls: bool) -> io::Result<Self> {
        let (ring, slots) = (ring_of(ENTRIES as u32)?, (0..ENTRIES).map(|_| None).collect());
        let (pushed, free, ready) = (VecDeque::new(), (0..ENTRIES).rev().collect(), Vec::new());
        Ok(Ring { ring, pushed, broken: None, slots, free, ready, patience: Patience::new(polls) })
    }

    fn pending(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts the rest of the transfer in `slot` into the submission queue.
    fn push(&mut self, slot: usize) {
        if self.broken.is_some() {
            return self.perform(slot);
        }
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
        self.pushed.push_back(slot);
    }

    /// Does the rest of the transfer in `slot` without the ring. The kernel does not have its entry, and is never
    /// called again.
    fn perform(&mut self, slot: usize) {
        let Some(Pending { transfer: Transfer { file, write, offset, block, len, .. }, done }) = &mut self.slots[slot]
        else {
            return;
        };
        let at = *offset + *done as u64;
        let result = match write {
            true => file.write_at(&block[*done..*len], at).map(|()| *len),
            false => file.read_at(&mut block[*done..*len], at).map(|count| *done + count),
        };
        self.finish(slot, result);
    }

    fn enqueue(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry names a file and bytes that the transfer in its slot owns. The slot is emptied only by
        // `finish`: when the kernel is done with the entry, for which `drop` waits, or when it has not taken the entry
        // and never will, since it takes entries in `enter` alone and `perform` is called of such slots when `enter`
        // asks it no more. So both outlive the kernel's use. No reference to the bytes is made while the kernel may use
        // them.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "a slot has one entry in the ring, and there are as many entries as slots");
    }

    /// Hands the pushed entries to the kernel and waits for `want` completions. May return early.
    fn enter(&mut self, want: usize) {
        if self.broken.is_some() {
            return thread::sleep(LOOK_AGAIN);
        }
        let entered = self.ring.submit_and_wait(want);
        let left = self.ring.submission().len();
        self.pushed.drain(..self.pushed.len() - left);
        let Err(error) = entered else { return };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => {}
            // The kernel is short of memory for requests for the moment.
            Some(Errno::AGAIN | Errno::BUSY) => thread::yield_now(),
            _ => self.do_without(error),
        }
    }

    /// Never calls the kernel again. Entries that it has not taken stay untaken.
    #[cold]
    fn do_without(&mut self, error: io::Error) {
        tracing::warn!(%error, "io_uring stopped working here: its requests are done one after the other from now on");
        self.broken = Some(error);
        mem::take(&mut self.pushed).into_iter().for_each(|slot| self.perform(slot));
    }

    /// Takes the completions of the kernel.
    fn reap(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            self.advance(entry.user_data() as usize, entry.result());
        }
    }

    /// Notes the kernel's answer for a slot, and continues a transfer that is not whole.
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
    fn wait(&mut self, wanted: usize) {
        self.enter(0);
        loop {
            self.reap();
            let missing = wanted.saturating_sub(self.ready.len());
            if missing == 0 {
                return;
            }
            let ring = &mut self.ring;
            if !self.patience.wait(|| ring.completion().len() >= missing) {
                self.enter(missing);
            }
        }
    }
}

/// Adds `count` transferred bytes; gives the result of the transfer if it is complete.
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
            self.wait(self.ready.len() + 1);
        }
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(Pending { transfer, done: 0 });
            self.push(slot);
        }
    }

    fn complete(&mut self, at_least: usize, done: &mut Vec<Finished<C>>) {
        self.wait(at_least.min(self.in_flight()));
        done.append(&mut self.ready);
    }

    fn in_flight(&self) -> usize {
        self.pending() + self.ready.len()
    }

    fn is_sound(&self) -> bool {
        self.broken.is_none()
    }
}

impl<C> Drop for Ring<C> {
    fn drop(&mut self) {
        self.wait(self.ready.len() + self.pending());
    }
}

impl<C> fmt::Debug for Ring<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("pending", &self.pending())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

/// A ring for one read at a time into borrowed memory.
pub struct Reader {
    ring: IoUring,
    patience: Patience,
}

impl Reader {
    /// A reader whose thread polls a while before it sleeps. Fails where the system has no io_uring, forbids it or is
    /// short of resources.
    pub fn new() -> io::Result<Self> {
        Ok(Reader { ring: ring_of(1)?, patience: Patience::new(true) })
    }

    /// As [`File::read_at`]. Gives the reader back unless there is an error.
    pub fn read_at(mut self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<(Self, usize)> {
        let count = file.read_with(buffer, offset, |rest, at| self.read_some(file, rest, at))?;
        Ok((self, count))
    }

    fn read_some(&mut self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let fd = Fd(file.as_fd().as_raw_fd());
        let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).offset(offset).build();
        // SAFETY: file and bytes are borrowed until this returns: after the kernel has answered the entry, or with an
        // error before it has taken it. Then `read_at` drops the ring, so that it never does. Nothing in between
        // unwinds.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::ErrorKind::ResourceBusy)?;
        self.hand_over()?;
        let answer = self.answer();
        usize::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer))
    }

    /// Hands the entry to the kernel. After an error the kernel has not taken it.
    fn hand_over(&mut self) -> io::Result<()> {
        while let Err(error) = self.ring.submit() {
            match Errno::from_io_error(&error) {
                _ if self.ring.submission().is_empty() => return Ok(()),
                // The kernel may be short of memory for requests for the moment.
                Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => thread::yield_now(),
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for the kernel's answer to the one entry. The function never returns without it.
    fn answer(&mut self) -> i32 {
        loop {
            let ring = &mut self.ring;
            if !self.patience.wait(|| !ring.completion().is_empty()) && self.ring.submit_and_wait(1).is_err() {
                thread::yield_now();
            }
            if let Some(entry) = self.ring.completion().next() {
                return entry.result();
            }
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// Tries whether rings can be made here and read and write work. Not cached: ask once.
pub fn probe() -> io::Result<()> {
    let file = Arc::new(File::from_fd(memfd_create("ecotone-probe", MemfdFlags::CLOEXEC)?, false)?);
    let arena = Arena::new(CHUNK_BYTES);
    let mut ring = Ring::new(false)?;
    let mut done = Vec::new();
    for write in [true, false] {
        let mut block = arena.lease(Size::Frame, 0).ok_or(io::ErrorKind::OutOfMemory)?;
        let len = block.len();
        block.fill(if write { 0xA5 } else { 0 });
        ring.submit(Transfer { file: file.clone(), write, offset: 0, block, len, context: () });
        ring.wait(1);
        if let Some(error) = ring.broken.take() {
            return Err(error);
        }
        done.append(&mut ring.ready);
    }
    let same =
        done.pop().is_some_and(|read| read.result.is_ok() && read.transfer.block.iter().all(|byte| *byte == 0xA5));
    if same { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
