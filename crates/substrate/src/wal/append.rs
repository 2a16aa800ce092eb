//! Reserves space for a record and appends it.

use std::{collections::VecDeque, sync::atomic::Ordering};

use super::{
    Wal,
    buffer::{Buffer, CAPACITY},
    mark::MARK_BYTES,
    record::{self, FRAME_BYTES, Frame, RecordKind},
};
use crate::{
    Error, Result, Seq,
    limits::MAX_LOG_RECORD,
    lock_rank::{self, HeldRank, LockRank, Wait},
};

/// Eighths of the limit from which on writers are throttled, so that few ever wait for truncation.
const SLOW_FROM: u64 = 6;

/// The kind of record that a reservation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationKind {
    /// An operation that adds data. It waits while the log is full, and leaves the last segment free.
    Write,
    /// Deletes. They may use the held-back segment, up to one segment above the log's limit.
    Delete,
    /// A structural record. It may use the held-back segment and never waits for the log's limit, since structural
    /// records let the log be truncated.
    Structure,
}

/// The position of an appended record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedAt {
    /// The record's sequence: its position.
    pub seq: Seq,
    /// The position after the record, for [`Wal::commit`].
    pub end: Seq,
}

/// State under the append mutex.
#[derive(Debug)]
pub(super) struct Appending {
    /// Bytes from `written` (or the end of the write in progress) to the tail.
    pub(super) buffer: Buffer,
    /// The position of the next record.
    pub(super) tail: Seq,
    /// Bytes reserved and not appended. With the buffer's bytes they never exceed its capacity.
    pub(super) reserved: u64,
    /// The end of all segments, spare ones included.
    pub(super) room_end: Seq,
    /// The position at which the segment after the tail's begins.
    boundary: Seq,
    /// Log bytes of the segments that begin at `boundary`, in order.
    ahead: VecDeque<u64>,
    /// Log bytes of the segment that ends at `room_end`, held back for structural records and deletes.
    pub(super) held_back: u64,
    /// Segment starts passed since the buffer was swapped, each with the position of the first record after it.
    pub(super) passed: Vec<(Seq, Seq)>,
    /// The synced position in the last mark, or in the header of the first segment.
    pub(super) marked: Seq,
    /// Initial value of the checksums of this incarnation.
    pub(super) seed: u32,
}

impl Appending {
    pub(super) fn new(buffer: Buffer) -> Self {
        Appending {
            buffer,
            tail: 0,
            reserved: 0,
            room_end: 0,
            boundary: 0,
            ahead: VecDeque::new(),
            held_back: 0,
            passed: Vec::new(),
            marked: 0,
            seed: 0,
        }
    }

    /// Goes on in a segment from `start` to `end`, and no further until segments are added.
    pub(super) fn begin_at(&mut self, start: Seq, end: Seq) {
        self.ahead.clear();
        (self.boundary, self.room_end, self.held_back) = (end, end, end - start);
    }

    /// Adds a segment of `payload` log bytes.
    pub(super) fn add_segment(&mut self, payload: u64) {
        self.ahead.push_back(payload);
        self.room_end += payload;
        self.held_back = payload;
    }

    /// Removes the last segment, unless it is the only one ahead or reservations need it. Returns whether it was
    /// removed.
    pub(super) fn remove_segment(&mut self) -> bool {
        let mut from_last = self.ahead.iter().rev();
        let (Some(last), Some(before)) = (from_last.next().copied(), from_last.next().copied()) else { return false };
        // Enough is left that no segment is made at once (`is_low`).
        if self.tail + self.reserved + before + before / 2 > self.room_end - last {
            return false;
        }
        self.ahead.pop_back();
        self.room_end -= last;
        self.held_back = before;
        true
    }

    /// Appends a mark that everything below `synced` survives power loss, once per sync.
    fn mark(&mut self, synced: Seq) {
        if synced > self.marked {
            let body = synced.to_le_bytes();
            self.place(RecordKind::Synced, &body, record::body_checksum(&body));
            self.marked = synced;
        }
    }

    fn place(&mut self, kind: RecordKind, body: &[u8], body_checksum: u32) -> AppendedAt {
        if self.tail == self.boundary {
            self.pass_boundary();
        }
        let length = u32::try_from(body.len()).expect("a reserved length fits");
        let seq = self.tail;
        self.buffer.push(&Frame::new(self.seed, seq, kind as u8, length, body_checksum).encode());
        self.buffer.push(body);
        self.tail += (FRAME_BYTES + body.len()) as u64;
        while self.tail > self.boundary {
            self.pass_boundary();
        }
        AppendedAt { seq, end: self.tail }
    }

    /// Moves the tail into the segment at the boundary, or behind it.
    fn pass_boundary(&mut self) {
        self.passed.push((self.boundary, self.tail));
        self.boundary += self.ahead.pop_front().expect("a segment was reserved with the bytes");
    }
}

/// A reservation for one record. Dropping it unused releases it.
#[derive(Debug)]
#[must_use = "room is taken until it is used or dropped"]
pub struct Reservation<'a> {
    wal: &'a Wal,
    bytes: u64,
    _held: HeldRank,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.wal.append.lock().reserved -= self.bytes;
            self.wal.notify_waiters();
        }
    }
}

/// What a reservation lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortfall {
    Limit,
    Segments,
    Buffer,
}

impl Wal {
    /// Reserves space for a record with a body of `body_bytes`, so that appending it cannot fail. Waits for the buffer
    /// and, depending on `room`, for space in the log. The caller holds no lock that background work needs.
    ///
    /// # Errors
    /// `NoSpace` if the log cannot grow or the session cannot begin, `Poisoned`, `Closed`, `Limit` for a body that is
    /// too long, and the cause given to [`reclaim_failed`](Self::reclaim_failed).
    pub fn reserve(&self, room: ReservationKind, body_bytes: usize) -> Result<Reservation<'_>> {
        let longest = (MAX_LOG_RECORD as u64).min(self.options.limit_bytes - (FRAME_BYTES + MARK_BYTES) as u64);
        if body_bytes as u64 > longest {
            return Err(Error::Limit {
                what: "the length of a log record in bytes",
                limit: longest,
                actual: body_bytes as u64,
            });
        }
        let bytes = (body_bytes + FRAME_BYTES + MARK_BYTES) as u64;
        self.begin_session()?;
        if room != ReservationKind::Structure {
            lock_rank::about_to_wait(Wait::Room);
        }
        self.call_if_half_full(bytes);
        if room == ReservationKind::Write {
            self.slow_down();
        }
        loop {
            self.health.check()?;
            match self.take_room(room, bytes) {
                None => return Ok(Reservation { wal: self, bytes, _held: lock_rank::hold(LockRank::LogReservation) }),
                Some(Shortfall::Limit) => self.wait_for_truncation(room, bytes)?,
                Some(Shortfall::Segments) => self.grow(room, bytes)?,
                Some(Shortfall::Buffer) => self.drain(bytes)?,
            }
        }
    }

    /// Delays a writer a little while log reclaim falls behind. If reclaim is failing there is no delay: a writer that
    /// finds the log full gets the cause.
    fn slow_down(&self) {
        let (used, limit) = (self.weight(), self.options.limit_bytes);
        let from = limit / 8 * SLOW_FROM;
        if used <= from || !self.scheduler.is_threaded() || self.reclaim.is_failing() {
            return;
        }
        let fullness = (used - from) as f64 / (limit - from) as f64;
        if let Some(delay) = self.pace.charge(fullness, 0) {
            self.delays.increment();
            self.delay_ns.add(delay.as_nanos() as u64);
            ecotone_sys::primitive::thread::sleep(delay);
        }
    }

    fn take_room(&self, room: ReservationKind, bytes: u64) -> Option<Shortfall> {
        let (short, is_low) = {
            let mut appending = self.append.lock();
            let short = self.missing(&appending, room, bytes);
            if short.is_none() {
                appending.reserved += bytes;
            }
            (short, self.is_low(&appending))
        };
        if is_low {
            self.call_for_segment();
        }
        short
    }

    fn missing(&self, appending: &Appending, room: ReservationKind, bytes: u64) -> Option<Shortfall> {
        assert!(appending.tail > 0, "the log is appended to before it was recovered");
        let (held_back, limit) = match room {
            ReservationKind::Write => (appending.held_back, self.options.limit_bytes),
            ReservationKind::Delete => (0, self.options.limit_bytes + self.options.segment_bytes),
            ReservationKind::Structure => (0, u64::MAX),
        };
        let end = appending.tail + appending.reserved + bytes;
        if self.weight.of(end - self.kept_from.load(Ordering::SeqCst).min(appending.tail)) > limit {
            Some(Shortfall::Limit)
        } else if end + held_back > appending.room_end {
            Some(Shortfall::Segments)
        } else if appending.buffer.len() as u64 + appending.reserved + bytes > CAPACITY as u64 {
            Some(Shortfall::Buffer)
        } else {
            None
        }
    }

    fn lacks(&self, room: ReservationKind, bytes: u64, what: Shortfall) -> bool {
        self.missing(&self.append.lock(), room, bytes) == Some(what)
    }

    fn wait_for_truncation(&self, room: ReservationKind, bytes: u64) -> Result<()> {
        let failures = self.reclaim.failures.count();
        let mut seen = None;
        self.waits.increment();
        self.wait("room in the log", || {
            let truncations = Some(self.reclaim.truncations());
            if !self.lacks(room, bytes, Shortfall::Limit) || self.reclaim.failures.since(failures).is_some() {
                return true;
            }
            if seen != truncations {
                seen = truncations;
                self.reclaim.call();
            }
            false
        })?;
        match self.reclaim.failures.since(failures) {
            Some(cause) if self.lacks(room, bytes, Shortfall::Limit) => Err(cause),
            _ => Ok(()),
        }
    }

    fn grow(&self, room: ReservationKind, bytes: u64) -> Result<()> {
        let _guard = self.growing.lock();
        while self.lacks(room, bytes, Shortfall::Segments) {
            self.add_segment(bytes)?;
        }
        Ok(())
    }

    /// Empties the buffer. If other reservations leave too little even then, waits until they are used.
    fn drain(&self, bytes: u64) -> Result<()> {
        self.write_through(self.tail())?;
        let promised = || self.append.lock().reserved + bytes > CAPACITY as u64;
        if promised() {
            self.wait("room in the log buffer", || !promised())?;
        }
        Ok(())
    }

    fn wait(&self, what: &'static str, ready: impl FnMut() -> bool) -> Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = self.scheduler.wait_until(what, ready);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    pub(super) fn notify_waiters(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.scheduler.notify();
        }
    }

    /// Appends a record to its reservation. Calls `install` with its sequence before any later record can be appended
    /// and before this one can be written. `install` must not block or use the log.
    ///
    /// # Panics
    /// If the body is longer than what was reserved.
    pub fn append(
        &self,
        mut reservation: Reservation<'_>,
        kind: RecordKind,
        body: &[u8],
        install: impl FnOnce(Seq),
    ) -> AppendedAt {
        let reserved = std::mem::take(&mut reservation.bytes);
        assert!(
            (FRAME_BYTES + body.len() + MARK_BYTES) as u64 <= reserved,
            "a log record is longer than its reservation"
        );
        let body_checksum = record::body_checksum(body);
        let placed = {
            let mut appending = self.append.lock();
            appending.reserved -= reserved;
            appending.mark(self.synced());
            let placed = appending.place(kind, body, body_checksum);
            install(placed.seq);
            self.tail.store(placed.end, Ordering::SeqCst);
            placed
        };
        self.records.increment();
        self.notify_waiters();
        placed
    }
}
