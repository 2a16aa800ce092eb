//! Bringing a stretch of keys that is scanned down into the last level (decision 14, "Merging").

use std::{cell::Cell, sync::Arc};

use ecotone_substrate::Result;

use crate::lsm::{
    records::Lsm,
    version::{Ranged, Version},
};

/// How many times the place of a stretch that has most of it is read at most to bring what is above into the last level.
const READ_AGAIN: u64 = 3;

impl Lsm {
    /// About how many bytes are read until hardly anything above the last level has keys of a stretch, and how many may be, if something has and these are not too many.
    pub(crate) fn above_last(&self, stretch: (&[u8], &[u8])) -> Option<(u64, u64)> {
        self.version().above_last(stretch, self.sizes.level_0)
    }

    /// Makes one job that brings some of a stretch a level down and reads so many bytes at most, with a turn of its own; tells when it has that. The bytes that it read, if
    /// there was anything.
    pub(crate) fn merge_next(
        self: &Arc<Self>,
        stretch: (&[u8], &[u8]),
        most: u64,
        has_turn: impl FnOnce(),
    ) -> Result<Option<u64>> {
        let turn = self.compacting.lock();
        has_turn();
        let read = Cell::new(0);
        let pick = |version: &Version<_>| {
            let piece = version.piece_of_stretch(stretch, most, self.sizes.level_0);
            piece.inspect(|piece| read.set(piece.bytes()))
        };
        let merged = self.compact_in_turn(pick, true);
        self.end_turn(turn);
        let read = merged?.then(|| read.get());
        // Nearly all of it is written again.
        self.adapted.add(read.unwrap_or(0));
        Ok(read)
    }
}

impl<T: Ranged> Version<T> {
    fn above_last(&self, stretch: (&[u8], &[u8]), level_0: u64) -> Option<(u64, u64)> {
        let most = READ_AGAIN * self.runs().map(|(place, _)| self.bytes_within(stretch, |other| other == place)).max()?;
        let first = self.piece_of_stretch(stretch, most, level_0)?;
        let runs = if first.has_runs() { first.bytes() } else { 0 };
        let bytes = (runs + self.levels_to_sink(stretch)).max(first.bytes());
        (bytes <= most).then_some((bytes, most))
    }
}
