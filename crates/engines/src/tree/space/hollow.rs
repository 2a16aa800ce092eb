//! The blocks of a page file that must be reserved again before they are used.

use std::{collections::BTreeSet, ops::Range};

/// Blocks out of use, by number.
#[derive(Debug, Default)]
pub(super) struct Hollow {
    all: BTreeSet<u32>,
    /// Those of them that may still have their space.
    present: BTreeSet<u32>,
}

impl Hollow {
    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// How many may still have their space.
    pub(super) fn present(&self) -> u32 {
        self.present.len() as u32
    }

    pub(super) fn contains(&self, block: u32) -> bool {
        self.all.contains(&block)
    }

    /// Adds blocks that may have their space.
    pub(super) fn add(&mut self, blocks: Range<u32>) {
        self.all.extend(blocks.clone());
        self.present.extend(blocks);
    }

    /// Notes that blocks have lost their space.
    pub(super) fn lost(&mut self, blocks: Range<u32>) {
        blocks.for_each(|block| {
            self.present.remove(&block);
        });
    }

    /// Takes blocks out that have their space for sure.
    pub(super) fn remove(&mut self, blocks: Range<u32>) {
        for block in blocks {
            self.all.remove(&block);
            self.present.remove(&block);
        }
    }

    /// The lowest of all, with neighbours, at most `most`.
    pub(super) fn lowest(&self, most: u32) -> Option<Range<u32>> {
        let first = *self.all.first()?;
        let neighbours = (first..).zip(&self.all).take(most.max(1) as usize).take_while(|(expected, block)| expected == *block);
        Some(first..first + neighbours.count() as u32)
    }

    /// The highest that may have their space, neighbours, at most `most`.
    pub(super) fn highest_present(&self, most: u32) -> Option<Range<u32>> {
        let last = *self.present.last()?;
        let descending = (0..=last).rev().zip(self.present.iter().rev());
        let neighbours = descending.take(most.max(1) as usize).take_while(|(expected, block)| expected == *block).count() as u32;
        Some(last + 1 - neighbours..last + 1)
    }
}
