//! Creates a log, and recovers one after a crash.

use std::sync::{Arc, atomic::Ordering};

use super::{
    FIRST, Wal, WalOptions,
    pool::Spare,
    reader::{OnRecord, Walk},
    segment::{self, Content, Segment, SegmentHeader},
    successor::Successor,
};
use crate::{
    Error, Result, Seq,
    environment::Environment,
    storage::{File, FileId, Storage},
};

/// The part of the manifest that describes the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// The replay position. It may lie inside a record, which is replayed then.
    pub from: Seq,
    /// A position that was synced: a log that ends before it is damaged.
    pub synced: Seq,
    /// An incarnation that was used: a segment of it, or of a later one, must be there.
    pub incarnation: u64,
    /// The number of the segment in which replay begins; none in manifests that do not name it.
    pub segment: Option<u32>,
    /// Whether a clean shutdown stored the manifest: the log ended at the replay position, and all of it was synced.
    pub clean: bool,
}

/// The log from the replay position to its end, as recovery found it.
#[derive(Debug)]
pub struct ReplayRange {
    /// The segments that were read, in order.
    segments: Vec<Segment>,
    from: Seq,
    end: Seq,
    is_clean: bool,
}

impl ReplayRange {
    /// Whether nothing was written since a clean shutdown, so that the whole log is durable.
    pub fn is_clean(&self) -> bool {
        self.is_clean
    }
}

/// Segment files found at open, before recovery decides which are needed.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Segments with a whole header, by start and incarnation.
    segments: Vec<Segment>,
    /// Files that are empty or unreadable, with their lengths.
    blank: Vec<(Arc<dyn File>, u64)>,
    /// The errors of files that cannot be used. They matter for files that the log needs.
    damaged: Vec<(FileId, Error)>,
}

impl Found {
    fn scan(storage: &dyn Storage, database: u64) -> Result<(Self, u32)> {
        let (mut found, mut next) = (Found::default(), 1);
        for id in storage.list()? {
            let FileId::Log(number) = id else { continue };
            next = next.max(number.saturating_add(1));
            match Segment::open(storage, id)? {
                (.., Content::Segment(segment)) if segment.header.database == database => found.segments.push(segment),
                // A segment of another database.
                (.., Content::Segment(_)) => {
                    found.damaged.push((id, Error::corruption(id, 0, "the log segment belongs to another database")));
                }
                (file, length, Content::Blank) => found.blank.push((file, length)),
                (file, length, Content::Damaged(error)) => {
                    found.damaged.push((id, error));
                    found.blank.push((file, length));
                }
            }
        }
        found.damaged.iter().for_each(|(_, error)| tracing::warn!(%error, "a log segment cannot be used"));
        found.segments.sort_by_key(|segment| (segment.header.start, segment.header.incarnation));
        Ok((found, next))
    }

    /// The segment in which replay begins.
    fn first(&self, replay: Replay) -> Result<usize> {
        let from = replay.from;
        let Some(named) = replay.segment else {
            // Nothing says which segments are needed, so all are.
            self.damaged.first().map_or(Ok(()), |(_, error)| Err(error.clone()))?;
            let missing = || {
                Error::corruption(
                    "log",
                    0,
                    format!("no log segment holds the replay position {from}; restore the log files"),
                )
            };
            return first(&self.segments, from).ok_or_else(missing);
        };
        let index = self
            .segments
            .iter()
            .position(|segment| segment.number() == named)
            .ok_or_else(|| self.missing(named, from))?;
        let holds = self.segments.get(index).is_some_and(|segment| segment.header.first_record <= from);
        if holds { Ok(index) } else { Err(self.missing(named, from)) }
    }

    /// The error for a segment that the log needs from this position on.
    fn missing(&self, number: u32, from: Seq) -> Error {
        let file = FileId::Log(number);
        if let Some((_, error)) = self.damaged.iter().find(|(damaged, _)| *damaged == file) {
            return error.clone();
        }
        let is_there = self.segments.iter().map(|segment| &segment.file).chain(self.blank.iter().map(|(file, _)| file));
        match is_there.map(|file| file.id()).any(|id| id == file) {
            true => Error::corruption(
                file,
                0,
                format!("it does not hold the log from position {from} on, which was written there; restore it"),
            ),
            false => Error::corruption(
                file,
                0,
                format!("the log segment is missing, which holds the log from position {from} on; restore it"),
            ),
        }
    }

    /// Fails unless every segment is there that the segments read so far name.
    fn check_successors<'a>(&self, entered: impl Iterator<Item = &'a Segment>) -> Result<()> {
        let (mut damaged, mut last) = (None, None);
        for segment in entered {
            if let Some(Successor { file, start, .. }) = segment.missing_successor(&self.segments) {
                return Err(self.missing(file, start));
            }
            // The damage matters if nothing was found behind it.
            damaged = segment.successor.as_ref().err();
            last = Some(segment);
        }
        // A record that was not read may reach through several segments, each of which names the next.
        while let Some(behind) = last.and_then(|segment| self.successor(segment)) {
            if let Some(Successor { file, start, .. }) = behind.missing_successor(&self.segments) {
                return Err(self.missing(file, start));
            }
            last = Some(behind);
        }
        damaged.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The segment that this one names, if it exists.
    fn successor(&self, segment: &Segment) -> Option<&Segment> {
        let named = segment.successor.as_ref().ok().copied().flatten()?;
        let is_named = |other: &&Segment| {
            let header = other.header;
            other.number() == named.file && (header.start, header.incarnation) == (named.start, named.incarnation)
        };
        // Only a later one or one of a younger session, so that the search ends whatever the files say.
        let is_behind = |other: &&Segment| {
            (other.header.incarnation, other.header.start) > (segment.header.incarnation, segment.header.start)
        };
        self.segments.iter().filter(is_behind).find(is_named)
    }
}

/// The segment in which the walk to `from` begins: one with a record at or before `from`.
pub(super) fn first(segments: &[Segment], from: Seq) -> Option<usize> {
    let holds = |header: &SegmentHeader| header.start <= from && from <= header.end();
    let headers = || segments.iter().map(|segment| segment.header).enumerate();
    let (mut index, mut header) =
        headers().filter(|(_, header)| holds(header)).max_by_key(|(_, header)| (header.incarnation, header.start))?;
    while header.first_record > from {
        // A record that began before this segment covers the position.
        let before = |other: &SegmentHeader| other.incarnation == header.incarnation && other.end() == header.start;
        (index, header) = headers().find(|(_, other)| before(other))?;
    }
    Some(index)
}

impl Wal {
    /// Makes the log of a new database. Its first sequence is 1.
    ///
    /// # Errors
    /// `NoSpace` among them; files that were made stay for the caller to remove.
    pub fn create(environment: Environment, options: WalOptions) -> Result<Arc<Self>> {
        let wal = Self::new(environment, options)?;
        wal.pool.lock().next = 1;
        wal.ends_at(FIRST, 0);
        wal.begin_session()?;
        wal.kept_from.store(FIRST, Ordering::SeqCst);
        Ok(wal.shared())
    }

    /// Finds the segments of an existing log. [`recover`](Self::recover) must follow before anything is appended.
    ///
    /// # Errors
    /// `NewerFormat`, and errors of reading the directory. [`recover`](Self::recover) finds damage, if it is in a part
    /// of the log that is needed.
    pub fn open(environment: Environment, options: WalOptions) -> Result<Arc<Self>> {
        let wal = Self::new(environment, options)?;
        let (found, next) = Found::scan(&*wal.storage, wal.database)?;
        wal.pool.lock().next = next;
        *wal.found.lock() = found;
        Ok(wal.shared())
    }

    /// Passes every record that reaches above the replay position to `on_record`, in order, and readies the log for
    /// appending. Unless nothing was written since a clean shutdown, it syncs the segments that it read and begins a
    /// session, if there is space for that. It may be interrupted at any point and repeated. The result is for
    /// [`replay`](Self::replay), which passes the records once more while the log is in use already.
    ///
    /// # Errors
    /// `Corruption` if a named segment is missing, if none is as young as the manifest knows, or if the log ends before
    /// a position that is known to have been synced. Damage after that position looks like a torn end, and ends the log
    /// without an error.
    pub fn recover(&self, replay: Replay, on_record: &mut OnRecord<'_>) -> Result<ReplayRange> {
        let found = std::mem::take(&mut *self.found.lock());
        let first = found.first(replay)?;
        let used = found.segments.iter().map(|segment| segment.header.incarnation).fold(0, u64::max);
        if used < replay.incarnation {
            found.damaged.first().map_or(Ok(()), |(_, error)| Err(error.clone()))?;
            let what =
                format!("the log segment of incarnation {} is missing; restore the log files", replay.incarnation);
            return Err(Error::corruption("log", 0, what));
        }
        let mut walk = Walk::new(&found.segments, first, &self.memory)?;
        if replay.clean {
            // A record ended at this position, and earlier ones are not needed.
            walk.begin_at(replay.from);
        }
        let end = walk.run(replay.from, Seq::MAX, on_record)?;
        found.check_successors(walk.entered())?;
        let synced = found.segments.iter().map(|segment| segment.header.synced).fold(replay.synced, Seq::max);
        let synced = synced.max(walk.synced_behind()?);
        if end < synced.max(replay.from) {
            let (place, wanted) = (walk.place(), synced.max(replay.from));
            let what = format!("the log ends at position {end}, and everything below {wanted} was synced");
            return Err(Error::corruption(place.file, place.offset, what));
        }
        let read: Vec<Segment> = walk.entered().cloned().collect();
        drop(walk);
        let is_clean = replay.clean && used <= replay.incarnation && end == replay.from;
        let replay_range = ReplayRange { segments: read.clone(), from: replay.from, end, is_clean };
        let end = if bug!(ReuseSequence) { replay.from } else { end };
        self.keep(&read, found);
        self.ends_at(end, used);
        self.kept_from.store(replay.from.min(end), Ordering::SeqCst);
        if !is_clean {
            self.sync_read(&read)?;
            match self.begin_session() {
                // A database on a full disk can still be read.
                Err(error) if error.is_no_space() => tracing::warn!(%error, "the log goes on when there is space"),
                begun => begun.map(drop)?,
            }
        }
        Ok(replay_range)
    }

    /// Passes every record of the range to `on_record`, in order. Meanwhile the log may be appended to and synced, but
    /// not truncated.
    ///
    /// # Errors
    /// `Corruption` if a record has changed since it was found.
    pub fn replay(&self, replay_range: &ReplayRange, on_record: &mut OnRecord<'_>) -> Result<()> {
        if replay_range.from == replay_range.end {
            return Ok(());
        }
        let mut walk = Walk::new(&replay_range.segments, 0, &self.memory)?;
        let end = walk.run(replay_range.from, replay_range.end, on_record)?;
        if end < replay_range.end {
            let place = walk.place();
            return Err(Error::corruption(place.file, place.offset, "a log record is not what it was a moment ago"));
        }
        replay_range.segments.iter().for_each(|segment| segment.file.forget(0, segment.header.bytes));
        Ok(())
    }

    /// Makes the files and names that recovery read durable, so that the next recovery reads the same, before anything
    /// builds on it. Names too: a process may have died between making a segment and syncing its name.
    fn sync_read(&self, segments: &[Segment]) -> Result<()> {
        if !bug!(SkipRecoverySync) {
            segments.iter().try_for_each(|segment| segment.file.sync()).map_err(|error| self.health.poison(error))?;
        }
        segment::sync_names(&*self.storage).map_err(|error| self.health.poison(error))
    }

    /// Sorts the files: those that were read, in order, which stay until a manifest names a later one; spare ones; and
    /// those of other lengths (creation was interrupted, or the options changed), which are removed when the session
    /// begins.
    fn keep(&self, read: &[Segment], found: Found) {
        let kept = |file: &Arc<dyn File>| read.iter().any(|segment| segment.file.id() == file.id());
        let others = found.segments.into_iter().map(|segment| (segment.file, segment.header.bytes)).chain(found.blank);
        let (spare, odd): (Vec<_>, Vec<_>) =
            others.filter(|(file, _)| !kept(file)).partition(|(_, length)| self.options.has(*length));
        let numbered = |(file, _): (Arc<dyn File>, u64)| match file.id() {
            FileId::Log(number) => Some((number, file)),
            _ => None,
        };
        let mut pool = self.pool.lock();
        pool.spare = spare.into_iter().map(|(file, bytes)| Spare { file, bytes }).collect();
        pool.odd = odd.into_iter().filter_map(numbered).collect();
        pool.chain = read.iter().cloned().collect();
    }
}
