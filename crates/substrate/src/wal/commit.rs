//! Group commit: one thread writes and syncs the records of all waiting threads.
//!
//! There are two locks: *writing* (of the buffer, in order) and *syncing*. The thread that gets one does the work for
//! everything appended so far; the threads that waited behind it find their work done. Writing goes on during a sync.
//! Locks are taken in the order output, pool, append.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Wal,
    buffer::Buffer,
    pool::Spare,
    segment::{HEADER_BYTES, Segment, SegmentHeader},
    successor::Successor,
};
use crate::{Result, Seq, limits::PAGE, storage::File};

/// When a write is acknowledged, and so what it survives. The stronger promise is the greater one.
///
/// With either, the writes that survive are a prefix of all writes to logged keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Durability {
    /// When the operating system has the record: it survives the death of the process, not a power failure. A later
    /// sync makes it survive that too.
    #[default]
    Buffered,
    /// When the disk has the record: it survives a power failure. Threads that wait for the disk at the same time share
    /// one sync.
    Sync,
}

/// State of the writing thread.
#[derive(Debug)]
pub(super) struct Output {
    /// The buffer that is not the append buffer.
    pub(super) buffer: Buffer,
    /// Segment starts ahead, each with the position of its first record.
    pub(super) passed: VecDeque<(Seq, Seq)>,
    /// The segment that holds the position `written`.
    pub(super) segment: Option<Segment>,
    /// Files with bytes that are not synced, each with the range of them.
    pub(super) unsynced: Vec<Unsynced>,
}

/// Bytes of a segment that are written and not synced.
#[derive(Debug)]
pub(super) struct Unsynced {
    file: Arc<dyn File>,
    from: u64,
    to: u64,
    /// The successor to name in the segment with this header, once the successor is durable.
    successor: Option<(SegmentHeader, Successor)>,
}

impl Output {
    pub(super) fn new(buffer: Buffer) -> Self {
        Output { buffer, passed: VecDeque::new(), segment: None, unsynced: Vec::new() }
    }
}

fn note(unsynced: &mut Vec<Unsynced>, file: &Arc<dyn File>, from: u64, to: u64) {
    match unsynced.last_mut() {
        Some(last) if Arc::ptr_eq(&last.file, file) => last.to = to,
        _ => unsynced.push(Unsynced { file: file.clone(), from, to, successor: None }),
    }
}

/// Blanks the page in which a write ends, if that page begins within the write. Otherwise the kernel would read the old
/// page of a recycled segment from the disk while all committing threads wait.
fn begin_page(file: &dyn File, from: u64, to: u64) -> Result<()> {
    let page = to & !(PAGE as u64 - 1);
    if page < from || page == to { Ok(()) } else { file.blank(page) }
}

/// Holds the sync lock until it is dropped.
struct SyncGuard<'a>(&'a Wal);

impl Drop for SyncGuard<'_> {
    fn drop(&mut self) {
        *self.0.syncing.lock() = false;
        self.0.sync_ended.notify_all();
    }
}

impl Wal {
    /// Returns when everything below `end`, the end of a record, is written or synced, by this thread or another one.
    ///
    /// # Errors
    /// The failed write or sync, or `Poisoned` with that cause for all others. Whether the record survives is unknown
    /// then.
    pub fn commit(&self, end: Seq, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => self.write_through(end),
            Durability::Sync => self.sync_to(end),
        }
    }

    /// Makes every record at or below `seq` survive power loss, also the record that contains `seq`. The write-ahead
    /// rule: call this before a change with sequence `seq` goes to any file.
    pub fn sync_through(&self, seq: Seq) -> Result<()> {
        if bug!(SkipWriteAhead) || self.synced() > seq {
            return Ok(());
        }
        // A sync covers whole records, so a sync that passes this position passes all of its record.
        self.sync_to(self.tail().min(seq.saturating_add(1)))
    }

    pub(super) fn write_through(&self, end: Seq) -> Result<()> {
        if self.written() >= end {
            return Ok(());
        }
        let mut output = self.output.lock();
        if self.written() >= end { Ok(()) } else { self.write(&mut output) }
    }

    fn sync_to(&self, end: Seq) -> Result<()> {
        if bug!(AcknowledgeBeforeSync) {
            return self.write_through(end);
        }
        if self.synced() >= end {
            return Ok(());
        }
        match self.lock_sync(end)? {
            Some(_guard) => self.sync(),
            None => Ok(()),
        }
    }

    /// Waits for the sync lock. `None` if another thread syncs up to `end` meanwhile.
    fn lock_sync(&self, end: Seq) -> Result<Option<SyncGuard<'_>>> {
        let mut busy = self.syncing.lock();
        loop {
            if self.synced() >= end {
                return Ok(None);
            }
            self.health.check()?;
            if !*busy {
                *busy = true;
                return Ok(Some(SyncGuard(self)));
            }
            self.sync_ended.wait(&mut busy);
        }
    }

    /// Writes and syncs everything appended so far, then names synced segments in their predecessors. The youngest
    /// comes first (commit-and-recovery.md, invariant 6). The caller holds the sync lock.
    fn sync(&self) -> Result<()> {
        let (target, unsynced) = {
            let mut output = self.output.lock();
            self.write(&mut output)?;
            (self.written(), std::mem::take(&mut output.unsynced))
        };
        for part in unsynced.into_iter().rev() {
            if let Some((header, successor)) = part.successor {
                successor.write(&*part.file, &header).map_err(|error| self.health.poison(error))?;
            }
            let synced = match part.file.sync() {
                Err(_) if bug!(RetryFailedSync) => part.file.sync(),
                result => result,
            };
            synced.map_err(|error| self.health.poison(error))?;
            self.syncs.increment();
            let whole_pages = part.from & !(HEADER_BYTES - 1);
            part.file.forget(whole_pages, part.to - whole_pages);
        }
        self.synced.store(target, Ordering::SeqCst);
        Ok(())
    }

    /// Writes everything appended so far. The caller holds the output lock. After a failure the buffer's bytes are
    /// lost, which is why nothing is written any more then.
    fn write(&self, output: &mut Output) -> Result<()> {
        self.health.check()?;
        let tail = {
            let mut appending = self.append.lock();
            std::mem::swap(&mut appending.buffer, &mut output.buffer);
            output.passed.extend(appending.passed.drain(..));
            appending.tail
        };
        if output.buffer.len() == 0 {
            return Ok(());
        }
        self.write_pieces(output).map_err(|error| self.health.poison(error))?;
        self.writes.increment();
        self.bytes.add(output.buffer.len() as u64);
        output.buffer.clear();
        self.written.store(tail, Ordering::SeqCst);
        self.notify_waiters();
        Ok(())
    }

    fn write_pieces(&self, output: &mut Output) -> Result<()> {
        let Output { buffer, passed, segment, unsynced } = output;
        let segment = segment.as_mut().expect("nothing is appended before the log was recovered");
        let mut position = self.written();
        for mut piece in buffer.pieces() {
            while !piece.is_empty() {
                if position >= segment.header.end() {
                    self.advance(position, segment, passed, unsynced)?;
                }
                let left = usize::try_from(segment.header.end() - position).unwrap_or(usize::MAX);
                let (now, later) = piece.split_at(piece.len().min(left));
                let offset = segment.offset(position);
                let end = offset + now.len() as u64;
                begin_page(&*segment.file, offset, end)?;
                segment.file.write(now, offset)?;
                note(unsynced, &segment.file, offset, end);
                position += now.len() as u64;
                piece = later;
            }
        }
        Ok(())
    }

    /// Goes on to a spare segment, since the present one ends at `position`. Reservations ensure that there is one.
    fn advance(
        &self,
        position: Seq,
        segment: &mut Segment,
        passed: &mut VecDeque<(Seq, Seq)>,
        unsynced: &mut Vec<Unsynced>,
    ) -> Result<()> {
        let (start, first_record) =
            passed.pop_front().expect("a segment start was passed when its bytes were appended");
        debug_assert_eq!(start, position);
        let Spare { file, bytes } = self.pool.lock().spare.pop_front().expect("a segment was reserved with the bytes");
        let header = self.header((start, first_record), self.incarnation(), self.synced(), bytes);
        // The file's former contents are not needed, so nothing looks for their successor.
        unsynced.retain(|part| !Arc::ptr_eq(&part.file, &file));
        let next = Segment::begin(file, header)?;
        if bug!(NameSuccessorEarly) {
            Successor::of(&next).write(&*segment.file, &segment.header)?;
        }
        let end = segment.header.bytes;
        note(unsynced, &segment.file, end, end);
        let last = unsynced.last_mut().expect("one was noted");
        last.successor = Some((segment.header, Successor::of(&next)));
        *segment = next;
        self.pool.lock().chain.push_back(segment.clone());
        Ok(())
    }

    /// The header of a pool segment of `bytes` bytes that begins at `start`, with the position of its first record.
    pub(super) fn header(
        &self,
        (start, first_record): (Seq, Seq),
        incarnation: u64,
        synced: Seq,
        bytes: u64,
    ) -> SegmentHeader {
        SegmentHeader { database: self.database, start, first_record, incarnation, synced, bytes }
    }
}
