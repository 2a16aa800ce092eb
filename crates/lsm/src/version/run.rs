//! A run or level: tables whose key ranges do not overlap, in key order.

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_substrate::table::FileRef;

use crate::{manifest::InvalidEdit, version::table_meta::TableMeta};

/// Ascending tables, shared by all versions that have the run.
#[derive(Debug)]
pub(crate) struct Run<T> {
    tables: Arc<[Arc<T>]>,
}

impl<T: TableMeta> Run<T> {
    /// A run of these tables, in any order.
    pub(super) fn of(mut tables: Vec<Arc<T>>) -> Result<Run<T>, InvalidEdit> {
        tables.sort_unstable_by(|a, b| a.first().cmp(b.first()));
        if tables.windows(2).all(|pair| pair[0].last() < pair[1].first()) {
            Ok(Run { tables: tables.into() })
        } else {
            Err("two tables of a run or level have one range in part")
        }
    }

    /// A run of some tables of another, ascending.
    pub(crate) fn part(tables: Vec<Arc<T>>) -> Run<T> {
        Run { tables: tables.into() }
    }

    /// Its tables, ascending.
    pub(crate) fn tables(&self) -> &[Arc<T>] {
        &self.tables
    }

    /// The table that can have a key.
    #[inline]
    pub(crate) fn table_for(&self, key: &[u8]) -> Option<&Arc<T>> {
        let place = self.tables.partition_point(|table| table.last() < key);
        self.tables.get(place).filter(|table| table.first() <= key)
    }

    /// The tables that can have keys of a range.
    pub(crate) fn overlapping(&self, range: &RangeInclusive<&[u8]>) -> &[Arc<T>] {
        let start = self.tables.partition_point(|table| table.last() < *range.start());
        let end = self.tables.partition_point(|table| table.first() <= *range.end());
        &self.tables[start..end.max(start)]
    }

    /// The tables that can have keys of a range, the upper bound excluded.
    pub(crate) fn within(&self, (lower, upper): (&[u8], &[u8])) -> &[Arc<T>] {
        let start = self.tables.partition_point(|table| table.last() < lower);
        let end = self.tables.partition_point(|table| table.first() < upper);
        &self.tables[start..end.max(start)]
    }

    /// The files of its tables.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileRef> {
        self.tables.iter().map(|table| table.file())
    }
}

impl<T> Clone for Run<T> {
    fn clone(&self) -> Run<T> {
        Run { tables: self.tables.clone() }
    }
}
