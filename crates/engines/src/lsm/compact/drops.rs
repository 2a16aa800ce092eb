//! Where tombstones end (decision 12, invariant 14).

use std::sync::Arc;

use ecotone_substrate::{bug, table::File};

use crate::lsm::version::{Ranged, Version};

/// What a job's tombstones may have to hide, which it does not read itself. Asked for ascending keys.
#[derive(Debug)]
pub(in crate::lsm) struct Drops<T> {
    /// Tables that are older than some of the job's, by runs and levels, each with the number of those that lie below the last key.
    below: Vec<(Vec<Arc<T>>, usize)>,
}

impl<T: Ranged> Drops<T> {
    /// Of a job that has these tables of a version, which is the one that it began with.
    pub(in crate::lsm) fn of(version: &Version<T>, inputs: &[File]) -> Drops<T> {
        let (mut below, mut is_older) = (Vec::new(), false);
        for (_, run) in version.runs() {
            let others: Vec<_> = run.tables().iter().filter(|table| !inputs.contains(&table.file())).cloned().collect();
            is_older |= others.len() < run.tables().len();
            if is_older {
                below.push((others, 0));
            }
        }
        Drops { below }
    }

    /// Whether nothing older can have a key.
    pub(in crate::lsm) fn may_drop(&mut self, key: &[u8]) -> bool {
        self.below.iter_mut().all(|(tables, passed)| {
            while tables.get(*passed).is_some_and(|table| table.last() < key) {
                *passed += 1;
            }
            tables.get(*passed).is_none_or(|table| key < table.first()) || bug!(DropTombstone)
        })
    }
}
