//! Salvage of a log: finds every whole record, for the repair of a damaged database. Nothing is written.

use std::sync::Arc;

use super::{
    reader::{OnRecord, Walk},
    recover::{self, Replay},
    segment::{Content, HEADER_BYTES, Segment, SegmentHeader},
    successor::Successor,
};
use crate::{
    Error, Result, Seq,
    memory::Memory,
    storage::{Access, FileId, Storage},
};

/// The search ends after this many damaged places.
const MOST_GAPS: usize = 1000;

/// A part of the log that was synced once and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingLogRange {
    /// The file in which it begins, if it exists.
    pub file: Option<FileId>,
    /// Its offset in the file.
    pub offset: u64,
    /// The position at which it begins.
    pub from: Seq,
    /// The position at which it ends; `None` if that is unknown, since the last segment is lost.
    pub until: Option<Seq>,
}

/// The segments of a log that may be damaged.
#[derive(Debug)]
pub struct LogSalvage {
    /// Segments with a whole header, by start and incarnation.
    segments: Vec<Segment>,
    problems: Vec<String>,
    memory: Arc<Memory>,
}

impl LogSalvage {
    /// Finds the segments of `database` or, if that is `None`, of the youngest segment's database.
    ///
    /// # Errors
    /// `NewerFormat`, and `Io` if the directory cannot be listed.
    pub fn find(storage: &dyn Storage, memory: &Arc<Memory>, database: Option<u64>) -> Result<Self> {
        let mut found = LogSalvage { segments: Vec::new(), problems: Vec::new(), memory: memory.clone() };
        let mut files: Vec<FileId> = storage.list()?.into_iter().filter(|id| matches!(id, FileId::Log(_))).collect();
        files.sort_unstable();
        for id in files {
            match open(storage, id) {
                Ok(segment) => found.segments.extend(segment),
                Err(error @ Error::NewerFormat { .. }) => return Err(error),
                Err(error) => found.problems.push(error.to_string()),
            }
        }
        let youngest = found.segments.iter().max_by_key(|segment| segment.header.incarnation);
        let database = database.or(youngest.map(|segment| segment.header.database));
        found.keep_those_of(database);
        Ok(found)
    }

    fn keep_those_of(&mut self, database: Option<u64>) {
        for stranger in self.segments.extract_if(.., |segment| Some(segment.header.database) != database) {
            self.problems.push(format!("{} belongs to another database and is not used", stranger.file.id()));
        }
        self.segments.sort_by_key(|segment| (segment.header.start, segment.header.incarnation));
    }

    /// The problems of the files, each as a sentence.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Passes every whole record to `on_record`, in order: those above the replay position if it is known, otherwise
    /// from the oldest segment on that leads to the end without a break. Behind damage it goes on with the next whole
    /// record, but only below a position that is known to have been synced, so that an undamaged log ends where
    /// recovery finds its end.
    ///
    /// # Errors
    /// Those of `on_record`.
    pub fn read(&self, replay: Option<Replay>, on_record: &mut OnRecord<'_>) -> Result<Vec<MissingLogRange>> {
        let (from, latest) = replay.map_or((0, 0), |replay| (replay.from, replay.incarnation));
        let synced = self.segments.iter().map(|segment| segment.header.synced).fold(0, Seq::max);
        let mut synced = replay.map_or(synced, |replay| replay.synced.max(replay.from).max(synced));
        let Some(first) = self.first(replay) else {
            return Ok(Vec::from_iter(replay.map(|_| MissingLogRange { file: None, offset: 0, from, until: None })));
        };
        let mut walk = Walk::new(&self.segments, first, &self.memory)?;
        if replay.is_some_and(|replay| replay.clean) && walk.position() <= from {
            walk.begin_at(from);
        }
        let mut gaps = Vec::new();
        if replay.is_some() && walk.position() > from {
            gaps.push(MissingLogRange { file: None, offset: 0, from, until: Some(walk.position()) });
        }
        while gaps.len() < MOST_GAPS {
            let mut refused = None;
            let end = walk.run(from, Seq::MAX, &mut |position, record| {
                on_record(position, record).inspect_err(|error| refused = Some(error.clone()))
            });
            refused.map_or(Ok(()), Err)?;
            let end = end.unwrap_or(walk.position());
            if end >= synced {
                synced = synced.max(walk.synced_behind().unwrap_or(0));
            }
            if end >= synced {
                break;
            }
            let place = walk.place();
            let until = if walk.skip(replay.map_or(0, |replay| replay.incarnation)) {
                walk.position().min(synced)
            } else {
                synced
            };
            gaps.push(MissingLogRange { file: Some(place.file), offset: place.offset, from: end, until: Some(until) });
            if until == synced {
                break;
            }
        }
        let missing = walk.entered().find_map(|segment| segment.missing_successor(&self.segments));
        if let Some(Successor { file, .. }) = missing {
            gaps.push(MissingLogRange { file: Some(FileId::Log(file)), offset: 0, from: walk.position(), until: None });
        } else if self.segments.iter().all(|segment| segment.header.incarnation < latest) {
            gaps.push(MissingLogRange { file: None, offset: 0, from: walk.position(), until: None });
        }
        Ok(gaps)
    }

    /// The segment in which reading begins.
    fn first(&self, replay: Option<Replay>) -> Option<usize> {
        let Some(Replay { from, .. }) = replay else { return self.oldest() };
        recover::first(&self.segments, from).or_else(|| {
            let behind = self.segments.iter().enumerate().filter(|(_, segment)| segment.header.first_record >= from);
            let order = |header: &SegmentHeader| (header.first_record, std::cmp::Reverse(header.incarnation));
            behind.min_by_key(|(_, segment)| order(&segment.header)).map(|(index, _)| index)
        })
    }

    /// The oldest segment from which the log goes on to its end. Older ones were truncated, and their files are spare.
    fn oldest(&self) -> Option<usize> {
        let headers = || self.segments.iter().map(|segment| segment.header).enumerate();
        let (mut index, mut here) = headers().max_by_key(|(_, header)| (header.incarnation, header.start))?;
        let leads_to = |before: &SegmentHeader, here: &SegmentHeader| match before.incarnation == here.incarnation {
            true => before.end() == here.start,
            false => before.incarnation < here.incarnation && before.start < here.start && here.start <= before.end(),
        };
        while let Some(before) = headers()
            .filter(|(_, header)| leads_to(header, &here))
            .max_by_key(|(_, header)| (header.incarnation, header.start))
        {
            (index, here) = before;
        }
        Some(index)
    }
}

/// Opens a file as a segment, as far as it is readable. `None` if it contains nothing of a log.
fn open(storage: &dyn Storage, id: FileId) -> Result<Option<Segment>> {
    let file = storage.open(id, Access::Cached)?;
    let length = file.len()?;
    match Segment::read(file, length)? {
        Content::Segment(Segment { file, header, successor }) if length > HEADER_BYTES => {
            Ok(Some(Segment { file, header: SegmentHeader { bytes: header.bytes.min(length), ..header }, successor }))
        }
        Content::Segment(_) | Content::Blank => Ok(None),
        Content::Damaged(error) => Err(error),
    }
}
