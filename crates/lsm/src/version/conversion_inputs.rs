//! Chooses the runs whose records a conversion to pages takes (A8; adaptive.md, "Converting to pages").

use ecotone_engine::option_value;

use crate::{
    manifest::{RunId, Visibility},
    version::{Run, SortedRun, TableMeta, Version},
};

/// How many of a range's records a conversion moves into pages at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Split {
    /// All visible records.
    #[default]
    Side,
    /// The visible records of the oldest run or level alone. Those of younger runs stay above the pages, and follow
    /// when scans have paid for them too.
    Down,
}

impl Split {
    /// Both, in the order of their numbers on disk.
    #[doc(hidden)]
    pub const ALL: [Split; 2] = [Split::Side, Split::Down];

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            Split::Side => "side",
            Split::Down => "down",
        }
    }
}

option_value!(Split, "split");

impl<T: TableMeta> Version<T> {
    /// The runs and levels that a conversion takes in a fragment, from young to old. Each has tables there.
    pub(crate) fn conversion_inputs(
        &self,
        split: Split,
        visibility: Visibility,
        range: (&[u8], &[u8]),
    ) -> Vec<(RunId, &Run<T>)> {
        let tables = self.sorted_runs(visibility).filter_map(SortedRun::tables);
        let mut taken: Vec<_> = tables.filter(|(_, run)| !run.within(range).is_empty()).collect();
        if split == Split::Down {
            taken.drain(..taken.len().saturating_sub(1));
        }
        taken
    }
}
