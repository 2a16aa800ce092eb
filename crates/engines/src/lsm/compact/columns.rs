//! Level 0 in columns, which go down one by one (decision 11, "Picking"; decision 12, invariant 12).

use std::ops::RangeInclusive;

use super::pick::{FEW_RUNS, MANY_RUNS, Piece, all, cheapest, range};
use crate::lsm::{
    structure::Place,
    version::{Ranged, Run, Version},
};

/// From the first key of some tables of level 0 to the last, which overlap none of level 0 but each other.
type Range<'v> = RangeInclusive<&'v [u8]>;

impl<T: Ranged> Version<T> {
    /// The runs of level 0, from young to old.
    pub(in crate::lsm) fn level_0(&self) -> impl Iterator<Item = (Place, &Run<T>)> {
        self.runs().filter(|(place, _)| place.is_run())
    }

    /// The column that moves most for what it takes, so that what is written again and again goes down alone. Where
    /// there are many runs it is one that has more than a few, or some of the oldest.
    pub(in crate::lsm) fn piece_of_level_0(&self, level_0: u64) -> Option<Piece<T>> {
        if self.level_0().count() < MANY_RUNS {
            return self.cheapest_column(level_0, |_| true);
        }
        let is_deep = |column: &Range<'_>| {
            self.level_0().filter(|(_, run)| !run.overlapping(column).is_empty()).count() >= FEW_RUNS
        };
        self.cheapest_column(level_0, is_deep).or_else(|| self.piece_of_oldest(level_0))
    }

    /// That of those that have some of the oldest run: so there are fewer runs soon.
    pub(in crate::lsm) fn piece_of_oldest(&self, level_0: u64) -> Option<Piece<T>> {
        let (_, oldest) = self.level_0().last()?;
        self.cheapest_column(level_0, |column| !oldest.overlapping(column).is_empty())
    }

    fn cheapest_column(&self, level_0: u64, may_be: impl Fn(&Range<'_>) -> bool) -> Option<Piece<T>> {
        let (columns, depth) = (self.columns().into_iter().filter(may_be), self.top(level_0));
        cheapest(columns.filter_map(|column| self.column(&column, depth)))
    }

    /// The column that moves most of a stretch of keys for what it takes to bring it to a depth, of those that take so
    /// many bytes at most. It is worth its bytes of the stretch.
    pub(super) fn column_over(&self, stretch: (&[u8], &[u8]), depth: u8, most: u64) -> Option<Piece<T>> {
        let columns =
            self.columns().into_iter().filter(|column| *column.start() <= stretch.1 && *column.end() >= stretch.0);
        let pieces = columns.filter_map(|column| self.column(&column, depth)).filter(|piece| piece.bytes() <= most);
        let within = |piece: &Piece<T>| piece.runs().map(|table| table.bytes_within(stretch)).sum();
        let pieces = pieces.map(|piece| (within(&piece), piece)).filter(|(within, _)| *within > 0);
        cheapest(pieces.map(|(within, piece)| piece.of_worth(within)))
    }

    /// The tables of a column, and what overlaps them of the levels down to the one where they go.
    pub(super) fn column(&self, column: &Range<'_>, depth: u8) -> Option<Piece<T>> {
        let mut tables: Vec<_> = self.level_0().map(|(place, run)| (place, run.overlapping(column).to_vec())).collect();
        for (place, run) in self.runs().filter(|(place, _)| !place.is_run() && *place < Place::Level(depth)) {
            let range = range(all(&tables))?;
            tables.push((place, run.overlapping(&range).to_vec()));
        }
        Piece::of(self, tables, depth)
    }

    /// All of them, ascending.
    fn columns(&self) -> Vec<Range<'_>> {
        let tables = self.level_0().flat_map(|(_, run)| run.tables());
        let mut ranges: Vec<_> = tables.map(|table| table.first()..=table.last()).collect();
        ranges.sort_unstable_by_key(|range| *range.start());
        ranges.dedup_by(|next, column| {
            let overlaps = next.start() <= column.end();
            if overlaps && next.end() > column.end() {
                *column = *column.start()..=*next.end();
            }
            overlaps
        });
        ranges
    }
}
