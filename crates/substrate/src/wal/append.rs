//! Reserving room for a record and placing it.

use std::{collections::VecDeque, sync::atomic::Ordering};

use super::{
    Wal,
    buffer::{Buffer, CAPACITY},
    mark::MARK_BYTES,
    record::{self, FRAME_BYTES, Frame, RecordKind},
};
use crate::{
    Error, Result, Seq,
    held::{self, Held, Kind, Wait},
    limits::MAX_LOG_RECORD,
};

/// Part of the limit, in eighths, from which on writers are slowed down, so that few ever wait for truncation.
const SLOW_FROM: u64 = 6;

/// Who asks for room in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// An operation that adds data. Waits while the log is full; leaves one segment alone.
    Write,
    /// Deletes. May use the segment that is held back, for one segment above the log's limit.
    Delete,
    /// A structural record. May use the segment that is held back, and never waits for the log's limit, since it is
    /// what makes room.
    Structure,
}

/// Where a record was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The record's sequence: its position.
    pub seq: Seq,
    /// The position after it; [`Wal::commit`] waits for that.
    pub end: Seq,
}

/// What the append mutex guards.
#[derive(Debug)]
pub(super) struct Appending {
    /// Bytes from `written` (or what is being written) to the tail.
    pub(super) buffer: Buffer,
    /// The position of the next record.
    pub(super) tail: Seq,
    /// Bytes promised and not placed. With the buffer's they never exceed its capacity.
    pub(super) reserved: u64,
    /// The position up to which there are segments, spare ones included.
    pub(super) room_end: Seq,
    /// The position at which the segment after the tail's begins.
    boundary: Seq,
    /// Log bytes of the segments that begin there, in order.
    ahead: VecDeque<u64>,
    /// Log bytes of the segment that ends at `room_end`, which is held back for what makes room.
    pub(super) held_back: u64,
    /// Segment starts that were passed since the buffer was swapped, each with the position of the first record after
    /// it.
    pub(super) passed: Vec<(Seq, Seq)>,
    /// The synced position that the last mark says, or the header of the first segment.
    pub(super) marked: Seq,
    /// Start of the checksums of this incarnation.
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

    /// Appending goes on in a segment that begins and ends there, and no further until segments are added.
    pub(super) fn begin_at(&mut self, start: Seq, end: Seq) {
        self.ahead.clear();
        (self.boundary, self.room_end, self.held_back) = (end, end, end - start);
    }

    /// There is one more segment, with so many log bytes.
    pub(super) fn add_segment(&mut self, payload: u64) {
        self.ahead.push_back(payload);
        self.room_end += payload;
        self.held_back = payload;
    }

    /// The last one goes, unless it is the only one ahead, or what is promised needs it. Whether it does.
    pub(super) fn remove_segment(&mut self) -> bool {
        let mut from_last = self.ahead.iter().rev();
        let (Some(last), Some(before)) = (from_last.next().copied(), from_last.next().copied()) else { return false };
        // With so much left that no segment is made at once (`is_low`).
        if self.tail + self.reserved + before + before / 2 > self.room_end - last {
            return false;
        }
        self.ahead.pop_back();
        self.room_end -= last;
        self.held_back = before;
        true
    }

    /// Says in the log that everything below `synced` survives power loss, once for each sync.
    fn mark(&mut self, synced: Seq) {
        if synced > self.marked {
            let body = synced.to_le_bytes();
            self.place(RecordKind::Synced, &body, record::body_checksum(&body));
            self.marked = synced;
        }
    }

    fn place(&mut self, kind: RecordKind, body: &[u8], body_checksum: u32) -> Placed {
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
        Placed { seq, end: self.tail }
    }

    /// The next record begins in the segment after the boundary, or behind it.
    fn pass_boundary(&mut self) {
        self.passed.push((self.boundary, self.tail));
        self.boundary += self.ahead.pop_front().expect("a segment was reserved with the bytes");
    }
}

/// Room for one record. Dropped without use it is given back.
#[derive(Debug)]
#[must_use = "room is taken until it is used or dropped"]
pub struct Reservation<'a> {
    wal: &'a Wal,
    bytes: u64,
    _held: Held,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.wal.append.lock().reserved -= self.bytes;
            self.wal.notify_waiters();
        }
    }
}

/// What is missing for a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    Limit,
    Segments,
    Buffer,
}

impl Wal {
    /// Takes room for a record with a body of `body_bytes`, so that appending it cannot fail. Waits for the buffer and,
    /// by `room`, for space in the log. Hold no lock that background work needs.
    ///
    /// # Errors
    /// `NoSpace` if the log cannot grow or the session cannot begin, `Poisoned`, `Closed`, `Limit` for a body that is
    /// too long, and what was given to [`relief_failed`](Self::relief_failed).
    pub fn reserve(&self, room: Room, body_bytes: usize) -> Result<Reservation<'_>> {
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
        if room != Room::Structure {
            held::about_to_wait(Wait::Room);
        }
        self.call_if_half_full(bytes);
        if room == Room::Write {
            self.slow_down();
        }
        loop {
            self.health.check()?;
            match self.take_room(room, bytes) {
                None => return Ok(Reservation { wal: self, bytes, _held: held::hold(Kind::LogRoom) }),
                Some(Short::Limit) => self.wait_for_truncation(room, bytes)?,
                Some(Short::Segments) => self.grow(room, bytes)?,
                Some(Short::Buffer) => self.drain(bytes)?,
            }
        }
    }

    /// Delays a writer a little while relief falls behind. Nobody waits for what cannot be done: who finds the log full
    /// is told why.
    fn slow_down(&self) {
        let (used, limit) = (self.weight(), self.options.limit_bytes);
        let from = limit / 8 * SLOW_FROM;
        if used <= from || !self.scheduler.is_threaded() || self.relief.is_failing() {
            return;
        }
        let fullness = (used - from) as f64 / (limit - from) as f64;
        if let Some(delay) = self.pace.charge(fullness, 0) {
            self.delays.increment();
            self.delay_ns.add(delay.as_nanos() as u64);
            ecotone_sys::primitive::thread::sleep(delay);
        }
    }

    fn take_room(&self, room: Room, bytes: u64) -> Option<Short> {
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

    fn missing(&self, appending: &Appending, room: Room, bytes: u64) -> Option<Short> {
        assert!(appending.tail > 0, "the log is appended to before it was recovered");
        let (held_back, limit) = match room {
            Room::Write => (appending.held_back, self.options.limit_bytes),
            Room::Delete => (0, self.options.limit_bytes + self.options.segment_bytes),
            Room::Structure => (0, u64::MAX),
        };
        let end = appending.tail + appending.reserved + bytes;
        if self.weight.of(end - self.kept_from.load(Ordering::SeqCst).min(appending.tail)) > limit {
            Some(Short::Limit)
        } else if end + held_back > appending.room_end {
            Some(Short::Segments)
        } else if appending.buffer.len() as u64 + appending.reserved + bytes > CAPACITY as u64 {
            Some(Short::Buffer)
        } else {
            None
        }
    }

    fn lacks(&self, room: Room, bytes: u64, what: Short) -> bool {
        self.missing(&self.append.lock(), room, bytes) == Some(what)
    }

    fn wait_for_truncation(&self, room: Room, bytes: u64) -> Result<()> {
        let failures = self.relief.failures.count();
        let mut seen = None;
        self.waits.increment();
        self.wait("room in the log", || {
            let truncations = Some(self.relief.truncations());
            if !self.lacks(room, bytes, Short::Limit) || self.relief.failures.since(failures).is_some() {
                return true;
            }
            if seen != truncations {
                seen = truncations;
                self.relief.call();
            }
            false
        })?;
        match self.relief.failures.since(failures) {
            Some(cause) if self.lacks(room, bytes, Short::Limit) => Err(cause),
            _ => Ok(()),
        }
    }

    fn grow(&self, room: Room, bytes: u64) -> Result<()> {
        let _turn = self.growing.lock();
        while self.lacks(room, bytes, Short::Segments) {
            self.add_segment(bytes)?;
        }
        Ok(())
    }

    /// Empties the buffer. If those who have reserved room leave too little even then, waits for them to use it.
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

    /// Places a record in the room that was taken for it, and calls `install` with its sequence before any later record
    /// can be placed and before this one can be written. `install` must not block or use the log.
    ///
    /// # Panics
    /// If the body is longer than what was reserved.
    pub fn append(
        &self,
        mut reservation: Reservation<'_>,
        kind: RecordKind,
        body: &[u8],
        install: impl FnOnce(Seq),
    ) -> Placed {
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
