//! The slab table of a memtable: slabs by number. It grows with the memtable, so its size depends on the slabs in use
//! and not on the memory budget.

use std::sync::OnceLock;

use ecotone_sys::words::Words;

/// Shortcuts take a sixteenth of a slab: five for four records of 108 bytes.
const PART: usize = 16;

/// Words of shortcuts at the start of a slab of `slab` words.
pub(super) const fn shortcut_words(slab: usize) -> usize {
    slab / PART
}

/// Slabs of the first row. Each row has twice as many as the one before, and a slab never moves.
const FIRST: usize = 4;
/// Rows for all slabs that 19 bits can number.
const ROWS: usize = 18;

/// One row, allocated with its first slab.
type Row = OnceLock<Box<[OnceLock<Slab>]>>;

/// A slab.
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) words: Words,
    /// Words of all slabs before it.
    pub(super) before: usize,
}

/// Slabs by number.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    rows: [Row; ROWS],
}

impl Slabs {
    /// A slab, if it was set.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Slab> {
        let (row, at) = place(number);
        self.rows[row].get()?[at].get()
    }

    /// Sets a slab.
    ///
    /// # Panics
    /// If the number has a slab already.
    pub(super) fn set(&self, number: usize, slab: Slab) {
        let (row, at) = place(number);
        let slabs = self.rows[row].get_or_init(|| (0..FIRST << row).map(|_| OnceLock::new()).collect());
        slabs[at].set(slab).expect("a number has one slab");
    }
}

/// The row of a slab, and its index in the row.
#[inline]
fn place(number: usize) -> (usize, usize) {
    let row = (number + FIRST).ilog2() - FIRST.ilog2();
    (row as usize, number + FIRST - (FIRST << row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_each_other_and_reach_to_the_last_address() {
        let places: Vec<_> = (0..13).map(place).collect();
        let rows = [(0, 4), (1, 8), (2, 1)];
        let expected: Vec<_> = rows.into_iter().flat_map(|(row, slabs)| (0..slabs).map(move |at| (row, at))).collect();
        assert_eq!(places, expected);
        let (row, at) = place((1 << 19) - 1);
        assert!(row < ROWS && at < FIRST << row);
    }
}
