//! Which places an absorption takes the records of (A8; decision 14, "Side-split and down-split").

use super::{Ranged, Run, Version};
use crate::lsm::structure::{Cover, Place};

/// How much of a range an absorption brings below the tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Split {
    /// All that counts.
    #[default]
    Side,
    /// What the oldest place has that counts: the rest stays above it.
    Down,
}

impl<T: Ranged> Version<T> {
    /// The runs and levels that it takes in a range of which the same places count, from young to old. All have tables
    /// there.
    pub(crate) fn taken<'v>(
        &'v self,
        split: Split,
        cover: Option<&'v Cover>,
        range: (&[u8], &[u8]),
    ) -> Vec<(Place, &'v Run<T>)> {
        let mut taken: Vec<_> = self.counting_in(cover).filter(|(_, run)| !run.within(range).is_empty()).collect();
        if split == Split::Down {
            taken.drain(..taken.len().saturating_sub(1));
        }
        taken
    }
}
