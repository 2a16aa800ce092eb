//! What becomes of a structure by a change. What does not fit is damage when it comes from the log.

use std::collections::BTreeSet;

use super::{Change, Delta, File, LogFile, Misfit, Part, Partition, Structure};
use crate::hash::log::Address;

/// Files that are no part of a structure any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    /// Of the hot log.
    pub segments: Vec<File>,
    /// Runs.
    pub tables: Vec<File>,
}

impl Gone {
    /// Numbers are given out again when their files are removed, and not before.
    fn check(&self, next: &Structure) -> Result<(), Misfit> {
        let numbers: BTreeSet<u32> = self.segments.iter().chain(&self.tables).map(|file| file.number).collect();
        let goes_and_stays = !numbers.is_empty() && next.numbers().any(|number| numbers.contains(&number));
        if goes_and_stays { Err("a file goes and stays") } else { Ok(()) }
    }
}

impl Structure {
    /// This one after a change, and what is not needed any more.
    pub fn after(&self, change: &Change) -> Result<(Structure, Gone), Misfit> {
        let (mut next, mut gone) = (self.clone(), Gone::default());
        match change {
            Change::Segment(segment) => next.add_segment(*segment, &mut gone)?,
            Change::Compact { comes, begin, durable, index_bits } => {
                next.index_bits = *index_bits;
                next.compact(*comes, (*begin, *durable), &mut gone)?;
            }
            Change::Fold { goes, comes, folded } => next.fold(*goes, comes, *folded, &mut gone)?,
            Change::Merge { goes, comes } => next.merge(goes, *comes, &mut gone)?,
        }
        next.check()?;
        gone.check(&next)?;
        Ok((next, gone))
    }

    /// The segment may be made for a stretch that has left the log meanwhile. Then it goes at once.
    fn add_segment(&mut self, segment: LogFile, gone: &mut Gone) -> Result<(), Misfit> {
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
        comes: Option<File>,
        (begin, durable): (Address, Address),
        gone: &mut Gone,
    ) -> Result<(), Misfit> {
        if begin <= self.begin {
            return Err("the hot log would begin before where it did");
        }
        // A root that was taken since knows more of the end than who made the change.
        (self.begin, self.durable) = (begin, self.durable.max(durable));
        self.deltas.extend(comes.map(|file| Delta { file, until: begin }));
        self.drop_segments(gone);
        Ok(())
    }

    fn drop_segments(&mut self, gone: &mut Gone) {
        let below = self.segments.partition_point(|segment| segment.end() <= self.begin);
        gone.segments.extend(self.segments.drain(..below).map(|segment| segment.file));
    }

    fn fold(&mut self, goes: Part, comes: &[Part], folded: Address, gone: &mut Gone) -> Result<(), Misfit> {
        let Some(place) = self.partitions.iter().position(|partition| partition.part == goes) else {
            return Err("a partition that is folded is not there");
        };
        if comes.is_empty() || folded < self.partitions[place].folded {
            return Err("a partition would have less than before");
        }
        let fresh = comes.iter().map(|part| Partition { part: *part, folded });
        self.partitions.splice(place..=place, fresh);
        gone.tables.extend(goes.base);
        let needed = self.partitions.iter().map(|partition| partition.folded).min().unwrap_or(folded);
        let superseded = self.deltas.partition_point(|delta| delta.until <= needed);
        gone.tables.extend(self.deltas.drain(..superseded).map(|delta| delta.file));
        Ok(())
    }

    fn merge(&mut self, goes: &[File], comes: Option<File>, gone: &mut Gone) -> Result<(), Misfit> {
        let place = goes.first().and_then(|first| self.deltas.iter().position(|delta| delta.file == *first));
        let there = place.and_then(|place| self.deltas.get(place..place + goes.len()));
        let Some((place, neighbours)) =
            place.zip(there).filter(|(_, there)| there.iter().map(|delta| delta.file).eq(goes.iter().copied()))
        else {
            return Err("deltas that are merged are no neighbours");
        };
        let until = neighbours[goes.len() - 1].until;
        let merged = comes.map(|file| Delta { file, until });
        self.deltas.splice(place..place + goes.len(), merged);
        gone.tables.extend_from_slice(goes);
        Ok(())
    }
}
