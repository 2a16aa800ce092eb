//! How large levels should be (decision 11, "Sizes").

use ecotone_substrate::limits::MAX_LEVELS;

use super::{Ranged, Run, Version};
use crate::lsm::structure::Place;

/// A level should have this many times the bytes of the one above it.
const RATIO: u64 = 8;

impl<T: Ranged> Version<T> {
    /// Bytes of the run or level at a place.
    pub(crate) fn bytes_at(&self, place: Place) -> u64 {
        self.run(place).map_or(0, |run| run.tables().iter().map(|table| table.bytes()).sum())
    }

    /// Bytes that a level should have at most: the last one has what it has, and those above it a part of that, as long
    /// as this is more than level 0 may have.
    pub(crate) fn target(&self, depth: u8, level_0: u64) -> u64 {
        let last = self.bytes_at(Place::Level(1));
        match depth {
            1 => u64::MAX,
            _ => RATIO
                .checked_pow(u32::from(depth) - 1)
                .map(|ratio| last / ratio)
                .filter(|target| *target > level_0)
                .unwrap_or(0),
        }
    }

    /// What is behind a run or a level, where its tables go next, if there is something.
    pub(crate) fn behind(&self, place: Place, level_0: u64) -> Option<&Run<T>> {
        let depth = match place {
            Place::Run(_) => self.top(level_0),
            Place::Level(depth) => depth - 1,
        };
        self.run(Place::Level(depth))
    }

    /// The depth of the level into which level 0 goes: the uppermost that has tables, or should.
    pub(crate) fn top(&self, level_0: u64) -> u8 {
        let there =
            self.runs().filter_map(|(place, _)| if let Place::Level(depth) = place { Some(depth) } else { None }).max();
        let wanted = (2..=MAX_LEVELS).take_while(|depth| self.target(*depth, level_0) > 0).last();
        there.max(wanted).unwrap_or(1)
    }
}
