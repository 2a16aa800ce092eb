//! Applies an edit to a structure. An edit from the log that does not fit is damage.

use std::collections::BTreeSet;

use super::{Delta, FileRef, HashManifest, InvalidEdit, LogFile, ManifestEdit, Partition, PartitionEntry};
use crate::log::Address;

/// Files that a structure does not name any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObsoleteFiles {
    /// Segments of the hot log.
    pub segments: Vec<FileRef>,
    /// Runs.
    pub tables: Vec<FileRef>,
}

impl ObsoleteFiles {
    /// A file number is reused after its file is removed, and not before.
    fn check(&self, next: &HashManifest) -> Result<(), InvalidEdit> {
        let numbers: BTreeSet<u32> = self.segments.iter().chain(&self.tables).map(|file| file.number).collect();
        let goes_and_stays = !numbers.is_empty() && next.numbers().any(|number| numbers.contains(&number));
        if goes_and_stays { Err("a file goes and stays") } else { Ok(()) }
    }
}

impl HashManifest {
    /// The structure after a change, and the files that it does not need any more.
    pub fn after(&self, change: &ManifestEdit) -> Result<(HashManifest, ObsoleteFiles), InvalidEdit> {
        let (mut next, mut gone) = (self.clone(), ObsoleteFiles::default());
        match change {
            ManifestEdit::Segment(segment) => next.add_segment(*segment, &mut gone)?,
            ManifestEdit::Compact { added, begin, durable, index_bits } => {
                next.index_bits = *index_bits;
                next.compact(*added, (*begin, *durable), &mut gone)?;
            }
            ManifestEdit::MergeIntoBase { deleted, added, merged_until } => {
                next.merge_into_base(*deleted, added, *merged_until, &mut gone)?
            }
            ManifestEdit::MergeDeltas { deleted, added } => next.merge(deleted, *added, &mut gone)?,
        }
        next.check()?;
        gone.check(&next)?;
        Ok((next, gone))
    }

    /// Adds a segment. The addresses of the segment may have left the log meanwhile; then it is dropped at once.
    fn add_segment(&mut self, segment: LogFile, gone: &mut ObsoleteFiles) -> Result<(), InvalidEdit> {
        let follows = match self.segments.last() {
            Some(last) => last.end() == segment.from,
            None => segment.from <= self.begin,
        };
        if !follows || !segment.is_possible() {
            return Err("a segment does not follow the ones before");
        }
        self.segments.push(segment);
        self.drop_segments(gone);
        Ok(())
    }

    fn compact(
        &mut self,
        added: Option<FileRef>,
        (begin, durable): (Address, Address),
        gone: &mut ObsoleteFiles,
    ) -> Result<(), InvalidEdit> {
        if begin <= self.begin {
            return Err("the hot log would begin before where it did");
        }
        // A checkpoint taken meanwhile may know a later durable end than the maker of the change.
        (self.begin, self.durable) = (begin, self.durable.max(durable));
        self.deltas.extend(added.map(|file| Delta { file, until: begin }));
        self.drop_segments(gone);
        Ok(())
    }

    fn drop_segments(&mut self, gone: &mut ObsoleteFiles) {
        let below = self.segments.partition_point(|segment| segment.end() <= self.begin);
        gone.segments.extend(self.segments.drain(..below).map(|segment| segment.file));
    }

    fn merge_into_base(
        &mut self,
        deleted: PartitionEntry,
        added: &[PartitionEntry],
        merged_until: Address,
        gone: &mut ObsoleteFiles,
    ) -> Result<(), InvalidEdit> {
        let Some(place) = self.partitions.iter().position(|partition| partition.part == deleted) else {
            return Err("a partition whose base is merged is not there");
        };
        if added.is_empty() || merged_until < self.partitions[place].merged_until {
            return Err("a partition would have less than before");
        }
        let fresh = added.iter().map(|part| Partition { part: *part, merged_until });
        self.partitions.splice(place..=place, fresh);
        gone.tables.extend(deleted.base);
        let needed = self.partitions.iter().map(|partition| partition.merged_until).min().unwrap_or(merged_until);
        let superseded = self.deltas.partition_point(|delta| delta.until <= needed);
        gone.tables.extend(self.deltas.drain(..superseded).map(|delta| delta.file));
        Ok(())
    }

    fn merge(
        &mut self,
        deleted: &[FileRef],
        added: Option<FileRef>,
        gone: &mut ObsoleteFiles,
    ) -> Result<(), InvalidEdit> {
        let place = deleted.first().and_then(|first| self.deltas.iter().position(|delta| delta.file == *first));
        let there = place.and_then(|place| self.deltas.get(place..place + deleted.len()));
        let Some((place, neighbours)) =
            place.zip(there).filter(|(_, there)| there.iter().map(|delta| delta.file).eq(deleted.iter().copied()))
        else {
            return Err("deltas that are merged are no neighbours");
        };
        let until = neighbours[deleted.len() - 1].until;
        let merged = added.map(|file| Delta { file, until });
        self.deltas.splice(place..place + deleted.len(), merged);
        gone.tables.extend_from_slice(deleted);
        Ok(())
    }
}
