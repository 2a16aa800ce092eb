//! Reads a log that a crash may have cut anywhere, from segments in any state.
//!
//! At the end of every record the walk follows one rule. If a segment with a higher incarnation starts right there, an
//! open once ended the log there, and everything else behind it is dead: go on in that segment. Otherwise the next
//! record is right behind or, at the end of the segment, in the one that continues it under the same incarnation. A
//! record that does not verify ends the log.

use ecotone_sys::chunk::{Block, Size};

use super::{
    mark::Search,
    record::{self, FRAME_BYTES, Frame, Location, Record, RecordKind},
    segment::{HEADER_BYTES, Segment},
};
use crate::{
    Result, Seq,
    limits::MAX_LOG_RECORD,
    memory::{Component, Memory},
};

/// Called with each record of a walk.
pub(super) type OnRecord<'a> = dyn FnMut(Seq, Record<'_>) -> Result<()> + 'a;

/// A window of one segment, so that short records do not cost a read each.
struct Window {
    block: Block,
    segment: usize,
    offset: u64,
    length: usize,
}

/// A walk over the log.
pub(super) struct Walk<'a> {
    /// Whole segments, by start and incarnation.
    segments: &'a [Segment],
    /// Indexes of the segments that were entered, in order. The last one holds `position`.
    entered: Vec<usize>,
    position: Seq,
    window: Window,
    body: Vec<u8>,
}

/// A record with a correct checksum.
struct Found {
    at: Location,
    kind: u8,
    end: Seq,
}

impl<'a> Walk<'a> {
    /// Begins at the first record in the segment `first`.
    pub(super) fn new(segments: &'a [Segment], first: usize, memory: &Memory) -> Result<Self> {
        let block = memory.lease_essential(Component::Log, Size::Slab)?;
        let window = Window { block, segment: usize::MAX, offset: 0, length: 0 };
        let position = segments[first].header.first_record;
        Ok(Walk { segments, entered: vec![first], position, window, body: Vec::new() })
    }

    /// Begins instead at the record at `position`, or at the end of the log there.
    pub(super) fn begin_at(&mut self, position: Seq) {
        self.position = position;
    }

    /// Passes the records that end above `from` and begin below `until` to `on_record`, in order. Returns the position
    /// after the last one.
    pub(super) fn run(&mut self, from: Seq, until: Seq, on_record: &mut OnRecord<'_>) -> Result<Seq> {
        loop {
            if self.position >= until {
                return Ok(self.position);
            }
            self.jump();
            let Some(found) = self.record()? else { return Ok(self.position) };
            if found.end > from {
                on_record(self.position, Record::decode(found.kind, &self.body, found.at)?)?;
            }
            self.position = found.end;
        }
    }

    /// The greatest synced position in marks behind the end of the log. If a crash cut the log off, none is above the
    /// end.
    pub(super) fn synced_behind(&mut self) -> Result<Seq> {
        let known = self.entered.len();
        let header = self.current().header;
        let mut search = Search::new(record::seed(header.database, header.incarnation), self.position);
        let searched = self.search_marks(&mut search);
        self.entered.truncate(known);
        searched.map(|()| search.synced)
    }

    fn search_marks(&mut self, search: &mut Search) -> Result<()> {
        let (mut position, mut piece) = (self.position, vec![0; self.window.block.len()]);
        while position < self.current().header.end() || self.follow() {
            let taken = self.copy(position, &mut piece)?;
            search.look(piece.get(..taken).unwrap_or_default());
            position += taken as u64;
        }
        Ok(())
    }

    /// Goes on behind a record that does not verify: to the next whole record of this incarnation, or else to the next
    /// segment. False if there is neither. The part that an open cut off is skipped: it ends where a younger segment
    /// begins, or here, if the segments of `latest`, the youngest incarnation, are lost.
    pub(super) fn skip(&mut self, latest: u64) -> bool {
        let (position, known) = (self.position, self.entered.len());
        let here = self.current().header.incarnation;
        let later = || self.segments.iter().enumerate().filter(|(_, other)| other.header.start > position);
        let younger =
            later().filter(|(_, other)| other.header.incarnation > here).map(|(_, other)| other.header.start).min();
        let until = younger.unwrap_or(if here < latest { 0 } else { Seq::MAX });
        if self.search_record(until).unwrap_or(false) {
            return true;
        }
        self.entered.truncate(known);
        let alive = later().filter(|(_, other)| other.header.incarnation >= here);
        let next = alive.min_by_key(|(_, other)| (other.header.start, std::cmp::Reverse(other.header.incarnation)));
        let Some((index, segment)) = next else {
            self.position = position;
            return false;
        };
        self.entered.push(index);
        self.position = segment.header.first_record;
        true
    }

    /// Searches byte by byte, since nothing says where records begin, for a record that begins below `until`.
    fn search_record(&mut self, until: Seq) -> Result<bool> {
        loop {
            self.position += 1;
            if self.position >= until || (self.position >= self.current().header.end() && !self.follow()) {
                return Ok(false);
            }
            let (known, mut frame) = (self.entered.len(), [0; FRAME_BYTES]);
            let read = self.read(self.position, &mut frame);
            self.entered.truncate(known);
            let kind = Frame::decode(frame).kind;
            if read? && (1..=RecordKind::Synced as u8).contains(&kind) && self.record()?.is_some() {
                return Ok(true);
            }
        }
    }

    /// The position after the last record, or of the record that [`skip`](Self::skip) found.
    pub(super) fn position(&self) -> Seq {
        self.position
    }

    /// The segments that were entered, in order.
    pub(super) fn entered(&self) -> impl Iterator<Item = &'a Segment> {
        self.entered.iter().map(|&index| &self.segments[index])
    }

    /// The location of the log's end, for errors.
    pub(super) fn place(&self) -> Location {
        let segment = self.current();
        let offset = segment.offset(self.position.clamp(segment.header.start, segment.header.end()));
        Location { file: segment.file.id(), offset }
    }

    fn current(&self) -> &'a Segment {
        let segments = self.segments;
        &segments[*self.entered.last().expect("a walk begins in a segment")]
    }

    /// Goes to the youngest segment that starts at this position, if it is younger than the present one.
    fn jump(&mut self) {
        let incarnation = self.current().header.incarnation;
        let after = self.segments.partition_point(|segment| segment.header.start <= self.position);
        let youngest = after.checked_sub(1).filter(|&last| {
            let header = &self.segments[last].header;
            header.start == self.position && header.incarnation > incarnation
        });
        self.entered.extend(youngest);
    }

    /// Reads the record at the position into `body`, if one verifies.
    fn record(&mut self) -> Result<Option<Found>> {
        let known = self.entered.len();
        let found = self.attempt()?;
        if found.is_none() {
            // Segments that only a torn record reaches into are not part of the log.
            self.entered.truncate(known);
        }
        Ok(found)
    }

    fn attempt(&mut self) -> Result<Option<Found>> {
        if self.position >= self.current().header.end() && !self.follow() {
            return Ok(None);
        }
        let (at, header) = (self.place(), self.current().header);
        let mut frame = [0; FRAME_BYTES];
        if !self.read(self.position, &mut frame)? {
            return Ok(None);
        }
        let frame = Frame::decode(frame);
        let length = frame.length as usize;
        if length > MAX_LOG_RECORD {
            return Ok(None);
        }
        let mut body = std::mem::take(&mut self.body);
        body.resize(length, 0);
        let whole = self.read(self.position + FRAME_BYTES as u64, &mut body);
        self.body = body;
        let seed = record::seed(header.database, header.incarnation);
        let right = Frame::new(seed, self.position, frame.kind, frame.length, record::body_checksum(&self.body));
        let believed = right.checksum == frame.checksum || (bug!(LengthBeforeChecksum) && frame.kind != 0);
        let end = self.position + (FRAME_BYTES + length) as u64;
        Ok((whole? && believed).then_some(Found { at, kind: frame.kind, end }))
    }

    /// Fills `buffer` from `position`, going on to the segments that continue the present one. False if the log ends
    /// before.
    fn read(&mut self, mut position: Seq, mut buffer: &mut [u8]) -> Result<bool> {
        while !buffer.is_empty() {
            if position >= self.current().header.end() && !self.follow() {
                return Ok(false);
            }
            let taken = self.copy(position, buffer)?;
            position += taken as u64;
            buffer = buffer.get_mut(taken..).unwrap_or_default();
        }
        Ok(true)
    }

    /// Enters the segment that continues the present one.
    fn follow(&mut self) -> bool {
        let here = &self.current().header;
        let wanted = (here.end(), here.incarnation);
        let next =
            self.segments.binary_search_by_key(&wanted, |segment| (segment.header.start, segment.header.incarnation));
        self.entered.extend(next.ok());
        next.is_ok()
    }

    /// Copies bytes at `position` from the window, at least one, after moving the window there if needed.
    fn copy(&mut self, position: Seq, buffer: &mut [u8]) -> Result<usize> {
        let segment = self.current();
        let offset = segment.offset(position);
        let index = self.entered.last().copied().unwrap_or(usize::MAX);
        let window = &mut self.window;
        if window.segment != index || offset < window.offset || offset >= window.offset + window.length as u64 {
            window.fill(index, segment, offset)?;
        }
        let skip = usize::try_from(offset - window.offset).unwrap_or(usize::MAX);
        let ready = window.block.get(..window.length).and_then(|bytes| bytes.get(skip..)).unwrap_or_default();
        let taken = ready.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..taken), ready.get(..taken)) {
            to.copy_from_slice(from);
        }
        Ok(taken)
    }
}

impl Window {
    fn fill(&mut self, index: usize, segment: &Segment, offset: u64) -> Result<()> {
        let start = offset & !(HEADER_BYTES - 1);
        let left = usize::try_from(segment.header.bytes - start).unwrap_or(usize::MAX);
        let length = left.min(self.block.len());
        self.length = 0;
        segment.file.read(self.block.get_mut(..length).unwrap_or_default(), start)?;
        (self.segment, self.offset, self.length) = (index, start, length);
        Ok(())
    }
}
