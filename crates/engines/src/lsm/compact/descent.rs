//! Bringing a stretch of keys that is scanned down into the last level (decision 14, "Merging").

use std::sync::Arc;

use ecotone_substrate::Result;

use super::pick::{Piece, range};
use crate::lsm::{
    family::Sizes,
    records::Lsm,
    structure::Place,
    version::{Ranged, Version},
};

/// How many times the place of a stretch that has most of it is read at most to bring what is above into the last
/// level.
const READ_AGAIN: u64 = 3;
/// The part of a stretch above which what a place has of it is brought down, and of what is read for that where it is
/// level 0.
const LITTLE: u64 = 32;
const LITTLE_OF_COLUMN: u64 = 16;
/// Bytes of a job at most that brings level 0 into the last level: its turn lasts as long.
const AT_ONCE: u64 = 1 << 30;
/// Parts of a job that tables of a level go down by at once, so that threads can share them.
const PARTS: u64 = 4;

/// Bytes that a merge of a stretch is to read, about, and that it may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) bytes: u64,
    pub(crate) most: u64,
}

/// What a turn of a merge has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Bytes of the tables of its job; none if something had to be absorbed before.
    pub(crate) read: u64,
    /// Bytes that were written to make way for it.
    pub(crate) before: u64,
}

impl Lsm {
    /// What it takes until hardly anything above the last level has keys of a stretch, if something has and that is not
    /// too much.
    pub(crate) fn plan_merge(&self, stretch: (&[u8], &[u8])) -> Option<Plan> {
        Descent::of(&self.version(), stretch, self.sizes).plan()
    }

    /// Makes one job that brings some of a stretch a level down and reads so many bytes at most, with a turn of its
    /// own; tells when it has that. What it did, if there was anything to do.
    pub(crate) fn merge_next(
        self: &Arc<Self>,
        stretch: (&[u8], &[u8]),
        most: u64,
        has_turn: impl FnOnce(),
    ) -> Result<Option<Merged>> {
        let turn = self.compacting.lock();
        has_turn();
        let adapted = self.adapted_bytes();
        let pick = |version: &Version<_>| Descent::of(version, stretch, self.sizes).next_piece(most);
        let merged = self.compact_in_turn(pick, true);
        self.end_turn(turn);
        let (read, before) = (merged?, self.adapted_bytes() - adapted);
        // Nearly all of it is written again.
        self.adapted.add(read.unwrap_or(0));
        Ok(read.map(|read| Merged { read, before }))
    }
}

/// A stretch of keys of a version, and what each place has of it.
#[derive(Debug)]
pub(super) struct Descent<'v, T> {
    version: &'v Version<T>,
    stretch: (&'v [u8], &'v [u8]),
    /// Bytes of it, about, from young to old.
    bytes: Vec<(Place, u64)>,
    /// Bytes that level 0 may have, and that tables of a level have at most that go down at once.
    level_0: u64,
    at_once: u64,
}

impl<'v, T: Ranged> Descent<'v, T> {
    pub(super) fn of(version: &'v Version<T>, stretch: (&'v [u8], &'v [u8]), sizes: Sizes) -> Descent<'v, T> {
        let bytes = version
            .runs()
            .map(|(place, run)| (place, run.within(stretch).iter().map(|table| table.bytes_within(stretch)).sum()));
        Descent { version, stretch, bytes: bytes.collect(), level_0: sizes.level_0, at_once: PARTS * sizes.part }
    }

    /// What brings some of it a level down, from the highest place above the last level that has more than a little of
    /// it, of so many bytes at most. Tables of level 0 go down with all that overlaps, so they come last where that
    /// reaches far beyond the stretch or leaves too few of the bytes for the levels.
    pub(super) fn next_piece(&self, most: u64) -> Option<Piece<T>> {
        let (level, column) = (self.level_to_sink(), self.column_to_sink(most));
        let of_level = || self.version.piece_of_stretch(level?, self.stretch, (self.at_once, most));
        let comes_first =
            |piece: &Piece<T>| piece.worth > piece.bytes() / LITTLE_OF_COLUMN && self.with_rest(piece) <= most;
        let is_first = column.as_ref().is_some_and(comes_first);
        let piece = if is_first { column } else { of_level().or(column) };
        piece.filter(|piece| piece.bytes() <= most)
    }

    fn plan(&self) -> Option<Plan> {
        let tables =
            self.version.runs().map(|(_, run)| run.within(self.stretch).iter().map(|table| table.bytes()).sum::<u64>());
        let most = READ_AGAIN * tables.max()?;
        let first = self.next_piece(most)?;
        let bytes = if first.runs().next().is_some() {
            self.with_rest(&first)
        } else {
            self.levels_to_sink().max(first.bytes())
        };
        (bytes <= most).then_some(Plan { bytes, most })
    }

    /// What goes down next of level 0, if it has more than a little: into the last level at once, if that is less to
    /// read. It takes so many bytes at most, and is worth its bytes of the stretch.
    fn column_to_sink(&self, most: u64) -> Option<Piece<T>> {
        if self.runs() <= self.little() {
            return None;
        }
        let piece = self.version.column_over(self.stretch, self.version.top(self.level_0), most)?;
        let range = range(piece.runs())?;
        let levels =
            self.version.runs().filter(|(place, _)| !place.is_run()).flat_map(|(_, run)| run.overlapping(&range));
        let by_steps = piece.bytes() + levels.map(|table| table.bytes()).sum::<u64>();
        let whole = self.version.column(&range, 1).filter(|whole| whole.bytes() <= by_steps.min(AT_ONCE).min(most));
        Some(whole.map(|whole| whole.of_worth(piece.worth)).unwrap_or(piece))
    }

    /// Bytes of a piece with level 0, and about those that are read behind it until no place above the last level has
    /// more than a little of the stretch.
    fn with_rest(&self, piece: &Piece<T>) -> u64 {
        let levels = piece.inputs.iter().filter(|(place, _)| !place.is_run() && piece.target == Place::Level(1));
        let brought = levels.flat_map(|(_, run)| run.tables()).map(|table| table.bytes_within(self.stretch)).sum();
        piece.bytes() + self.runs().saturating_sub(piece.worth) + self.levels_to_sink().saturating_sub(brought)
    }

    /// The highest level above the last that has more than a little of it.
    fn level_to_sink(&self) -> Option<u8> {
        let little = self.little();
        self.bytes.iter().find_map(|(place, bytes)| match place {
            Place::Level(depth) if *depth > 1 && *bytes > little => Some(*depth),
            _ => None,
        })
    }

    /// About how many bytes are read until no level above the last has more than a little of it.
    fn levels_to_sink(&self) -> u64 {
        self.level_to_sink().map_or(0, |_| self.levels())
    }

    fn little(&self) -> u64 {
        (self.runs() + self.levels()) / LITTLE
    }

    /// Bytes of level 0.
    fn runs(&self) -> u64 {
        self.bytes.iter().filter(|(place, _)| place.is_run()).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of all levels below.
    fn levels(&self) -> u64 {
        self.bytes.iter().filter(|(place, _)| !place.is_run()).map(|(_, bytes)| bytes).sum()
    }
}
