//! Frames that are split into cells, and the set of their free cells.

use std::collections::{BTreeMap, BTreeSet};

use super::{CELL_BYTES, CELLS, Size};

const ALL: u16 = u16::MAX;

/// A run of cells of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u8,
    pub(super) count: u8,
}

impl Run {
    /// A run of `count` cells at the front of a frame.
    pub(super) fn front(count: u8) -> Run {
        Run { first: 0, count }
    }

    pub(super) fn offset(self) -> usize {
        usize::from(self.first) * CELL_BYTES
    }

    fn bits(self) -> u16 {
        assert!(self.count > 0 && usize::from(self.first + self.count) <= CELLS, "a run lies in a frame");
        ALL >> (CELLS - usize::from(self.count)) << self.first
    }
}

/// All frames that are split, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// The free cells of each split frame.
    free: BTreeMap<u32, u16>,
    /// Frames by the length of their longest free run, in cells.
    by_room: [BTreeSet<u32>; CELLS + 1],
}

impl Cells {
    /// Takes a run in the lowest frame that has space for it, if there is one.
    pub(super) fn take(&mut self, count: u8) -> Option<(u32, Run)> {
        let frame = self.by_room[usize::from(count)..].iter().filter_map(BTreeSet::first).min().copied()?;
        let free = self.free[&frame];
        let run = (0..CELLS as u8 - count + 1)
            .map(|first| Run { first, count })
            .find(|run| free & run.bits() == run.bits())?;
        self.set(frame, free & !run.bits());
        Some((frame, run))
    }

    /// Splits a frame that is in use; the run `used` stays in use.
    pub(super) fn split(&mut self, frame: u32, used: Run) {
        self.set(frame, !used.bits());
    }

    /// Frees a run. Returns whether all of its frame is free now; such a frame is not split any more.
    pub(super) fn give_back(&mut self, frame: u32, run: Run) -> bool {
        let free = self.free[&frame] | run.bits();
        self.set(frame, free);
        if free == ALL {
            self.free.remove(&frame);
            self.by_room[CELLS].remove(&frame);
        }
        free == ALL
    }

    fn set(&mut self, frame: u32, free: u16) {
        if let Some(before) = self.free.insert(frame, free) {
            self.by_room[longest_run(before)].remove(&frame);
        }
        self.by_room[longest_run(free)].insert(frame);
    }
}

/// Length of the longest run of set bits.
fn longest_run(mut bits: u16) -> usize {
    let mut length = 0;
    while bits != 0 {
        bits &= bits << 1;
        length += 1;
    }
    length
}

/// Bytes that a frame keeps when it is [cut](super::Block::cut) to so many.
pub fn cut_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(CELL_BYTES).clamp(CELL_BYTES, Size::Frame.bytes())
}

/// The number of cells for so many bytes; none if they take a whole frame.
pub(super) fn cells_for(bytes: usize) -> Option<u8> {
    let cut = cut_bytes(bytes);
    (cut < Size::Frame.bytes()).then_some((cut / CELL_BYTES) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_lie_side_by_side_in_the_lowest_frame_with_room() {
        let mut cells = Cells::default();
        assert_eq!(cells.take(1), None);
        cells.split(9, Run::front(7));
        assert_eq!(cells.take(10), None);
        assert_eq!(cells.take(7), Some((9, Run { first: 7, count: 7 })));
        cells.split(4, Run::front(15));
        assert_eq!(cells.take(2), Some((9, Run { first: 14, count: 2 })));
        assert_eq!(cells.take(1), Some((4, Run { first: 15, count: 1 })));
        assert!(!cells.give_back(9, Run { first: 7, count: 7 }));
        assert_eq!((cells.take(8), cells.take(3)), (None, Some((9, Run { first: 7, count: 3 }))));
        for (frame, run, is_last) in [
            (9, Run { first: 14, count: 2 }, false),
            (9, Run::front(7), false),
            (9, Run { first: 7, count: 3 }, true),
            (4, Run { first: 15, count: 1 }, false),
            (4, Run::front(15), true),
        ] {
            assert_eq!(cells.give_back(frame, run), is_last, "{frame} {run:?}");
        }
        assert!(cells.free.is_empty() && cells.by_room.iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn the_longest_run_is_that_of_a_plain_search() {
        for bits in 0..=ALL {
            let plain = (1..=CELLS as u8).rev().find(|count| {
                (0..=CELLS as u8 - count).map(|first| Run { first, count: *count }.bits()).any(|run| bits & run == run)
            });
            assert_eq!(longest_run(bits), plain.map_or(0, usize::from), "{bits:b}");
        }
    }

    #[test]
    fn bytes_are_rounded_up_to_cells() {
        for (bytes, cells) in [(0, 1), (1, 1), (256, 1), (257, 2), (3840, 15), (3841, 16), (9000, 16)] {
            assert_eq!(cut_bytes(bytes), cells * CELL_BYTES, "{bytes}");
            assert_eq!(cells_for(bytes), (cells < CELLS).then_some(cells as u8), "{bytes}");
        }
    }
}
