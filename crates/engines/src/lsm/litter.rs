//! What tables keep for nothing, as their tombstones tell (decision 11, "Picking"): each of these hides a record below
//! it, until both end in a compaction.

use std::sync::Arc;

use super::{
    compact::pick::Piece,
    structure::Place,
    version::{Ranged, Version},
};
use crate::idle::{self, FEW};

impl<T: Ranged> Version<T> {
    /// Whether much of the tables is hidden, about, by tombstones above the last level and so many others.
    pub(super) fn is_littered(&self, others: u64, little: u64) -> bool {
        let (mut bytes, mut values, mut tombstones) = (0, 0, others);
        for (place, run) in self.runs() {
            for table in run.tables() {
                let (records, hiding) = table.records();
                bytes += table.bytes();
                values += records - hiding;
                tombstones += if place == Place::Level(1) { 0 } else { hiding };
            }
        }
        let hidden = bytes as f64 * tombstones.min(values) as f64 / values.max(1) as f64;
        tombstones > FEW && idle::is_littered(bytes, hidden as u64, little)
    }

    /// Whether tables that have keys of a range, whose upper bound is excluded, have more tombstones than values: what
    /// is below them has little left of the range.
    pub(crate) fn is_mostly_deleted(&self, range: (&[u8], &[u8])) -> bool {
        let tables = self.runs().flat_map(|(_, run)| run.within(range)).map(|table| table.records());
        let (records, tombstones) =
            tables.fold((0, 0), |(records, all), (more, hiding)| (records + more, all + hiding));
        is_dense((records, tombstones))
    }

    /// The table above the last level that has most tombstones, with what it overlaps of the level below it: level 0
    /// first, which is the youngest.
    pub(super) fn piece_of_litter(&self, level_0: u64) -> Option<Piece<T>> {
        let hiding = |table: &Arc<T>| table.records().1;
        if self.level_0().any(|(_, run)| run.tables().iter().any(|table| hiding(table) > 0)) {
            return self.piece_of_level_0(level_0);
        }
        let (depth, table) =
            self.above_last().filter(|(_, table)| hiding(table) > 0).max_by_key(|(_, table)| hiding(table))?;
        self.piece_of_level(depth, |there| there.file() == table.file())
    }

    /// A table that has more tombstones than values, below level 0 and above the last level, if it is worth half of
    /// what is moved for it: who comes by passes over all of them.
    pub(super) fn piece_of_tombstones(&self) -> Option<Piece<T>> {
        let dense = self.above_last().filter(|(_, table)| is_dense(table.records()));
        let piece = |(depth, table): (u8, &Arc<T>)| self.piece_of_level(depth, |there| there.file() == table.file());
        dense.filter_map(piece).find(|piece| 2 * piece.worth() >= piece.bytes())
    }

    fn above_last(&self) -> impl Iterator<Item = (u8, &Arc<T>)> {
        let depth = |place| if let Place::Level(depth @ 2..) = place { Some(depth) } else { None };
        self.runs()
            .filter_map(move |(place, run)| Some((depth(place)?, run)))
            .flat_map(|(depth, run)| run.tables().iter().map(move |table| (depth, table)))
    }
}

/// Whether most of so many records are tombstones, and these are not few.
fn is_dense((records, tombstones): (u64, u64)) -> bool {
    tombstones > FEW && 2 * tombstones > records
}
