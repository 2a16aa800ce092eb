//! A row of tables whose ranges do not touch.

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_substrate::table::File;

use super::Ranged;
use crate::lsm::structure::Misfit;

/// Tables, ascending. It is shared by all versions that have it.
#[derive(Debug)]
pub(crate) struct Run<T> {
    tables: Arc<[Arc<T>]>,
}

impl<T: Ranged> Run<T> {
    /// Of these tables, in whatever order.
    pub(super) fn of(mut tables: Vec<Arc<T>>) -> Result<Run<T>, Misfit> {
        tables.sort_unstable_by(|a, b| a.first().cmp(b.first()));
        if tables.windows(2).all(|pair| pair[0].last() < pair[1].first()) {
            Ok(Run { tables: tables.into() })
        } else {
            Err("two tables of a run or level have one range in part")
        }
    }

    /// Of some tables of a run, ascending.
    pub(crate) fn part(tables: Vec<Arc<T>>) -> Run<T> {
        Run { tables: tables.into() }
    }

    /// Its tables, ascending.
    pub(crate) fn tables(&self) -> &[Arc<T>] {
        &self.tables
    }

    /// The one that can have a key.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8]) -> Option<&Arc<T>> {
        let place = self.tables.partition_point(|table| table.last() < key);
        self.tables.get(place).filter(|table| table.first() <= key)
    }

    /// Those that can have keys of a range.
    pub(crate) fn overlapping(&self, range: &RangeInclusive<&[u8]>) -> &[Arc<T>] {
        let start = self.tables.partition_point(|table| table.last() < *range.start());
        let end = self.tables.partition_point(|table| table.first() <= *range.end());
        &self.tables[start..end.max(start)]
    }

    /// Those that can have keys of a range, whose upper bound is excluded.
    pub(crate) fn within(&self, (lower, upper): (&[u8], &[u8])) -> &[Arc<T>] {
        let start = self.tables.partition_point(|table| table.last() < lower);
        let end = self.tables.partition_point(|table| table.first() < upper);
        &self.tables[start..end.max(start)]
    }

    /// Their files.
    pub(crate) fn files(&self) -> impl Iterator<Item = File> {
        self.tables.iter().map(|table| table.file())
    }
}

impl<T> Clone for Run<T> {
    fn clone(&self) -> Run<T> {
        Run { tables: self.tables.clone() }
    }
}
