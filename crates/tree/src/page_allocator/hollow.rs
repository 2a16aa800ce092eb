//! Pieces of a page file that are or may be holes. They are out of use until their disk space is reserved again.

use std::{collections::BTreeSet, ops::Range};

/// Pieces out of use, by number.
#[derive(Debug, Default)]
pub(super) struct PunchedPieces {
    all: BTreeSet<u32>,
    /// Those of them that may still have their space.
    present: BTreeSet<u32>,
}

impl PunchedPieces {
    /// Number of pieces.
    pub(super) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// Number of pieces that may still have their space.
    pub(super) fn present(&self) -> u32 {
        self.present.len() as u32
    }

    pub(super) fn contains(&self, piece: u32) -> bool {
        self.all.contains(&piece)
    }

    /// Adds pieces that may have their space.
    pub(super) fn add(&mut self, pieces: Range<u32>) {
        self.all.extend(pieces.clone());
        self.present.extend(pieces);
    }

    /// Notes that pieces have lost their space.
    pub(super) fn lost(&mut self, pieces: Range<u32>) {
        pieces.for_each(|piece| {
            self.present.remove(&piece);
        });
    }

    /// Removes pieces whose space is reserved.
    pub(super) fn remove(&mut self, pieces: Range<u32>) {
        for piece in pieces {
            self.all.remove(&piece);
            self.present.remove(&piece);
        }
    }

    /// The lowest run of at least `least` neighbouring pieces, at most `most` of them.
    pub(super) fn lowest(&self, least: u32, most: u32) -> Option<Range<u32>> {
        let mut found = 0..0;
        for &piece in &self.all {
            if piece != found.end {
                if found.len() as u32 >= least {
                    break;
                }
                found = piece..piece;
            }
            found.end += 1;
            if found.len() as u32 >= most {
                break;
            }
        }
        (found.len() as u32 >= least).then_some(found)
    }

    /// The highest run of neighbouring pieces that may have their space, at most `most`.
    pub(super) fn highest_present(&self, most: u32) -> Option<Range<u32>> {
        let last = *self.present.last()?;
        let descending = (0..=last).rev().zip(self.present.iter().rev());
        let neighbours =
            descending.take(most.max(1) as usize).take_while(|(expected, piece)| expected == *piece).count() as u32;
        Some(last + 1 - neighbours..last + 1)
    }
}
