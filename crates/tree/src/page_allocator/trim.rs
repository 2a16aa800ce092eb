//! Trimming: punches holes into free space to return it to the file system, and reserves the space again before it is
//! used (tree.md, "Space").

#[cfg(test)]
mod tests;

use std::ops::Range;

use ecotone_substrate::{Result, limits::PAGE};

use super::{PageAllocator, State, bitmap::PIECE};

/// Space is returned when the free pages exceed the used pages divided by this, plus twice [`FLOOR`].
const HIGH: u32 = 24;
/// Free pages that are kept: the used pages divided by this, plus [`FLOOR`].
const LOW: u32 = 48;
/// Pages that are always kept free: an eighth of a MiB.
const FLOOR: u32 = 32;
/// Most pieces that are punched at a time, while the file cannot grow: 64 MiB.
const MAX_PUNCHED_PIECES: u32 = 4096;

impl State {
    /// Number of pieces to return: those that are free, or out of use but may still take disk space, beyond the
    /// reserve.
    fn spare_pieces(&self) -> u32 {
        self.spare_pieces_with(0)
    }

    /// The same, assuming that `freed` more pages are free.
    fn spare_pieces_with(&self, freed: u32) -> u32 {
        let (used, free) = (self.used() - freed, self.pages.free() + self.hollow.present() * PIECE + freed);
        if free <= used / HIGH + 2 * FLOOR { 0 } else { (free - used / LOW - FLOOR) / PIECE }
    }

    /// Chooses pieces to punch and takes them out of use. Prefers pieces that are out of use already, then the highest
    /// free pieces below piece `below`.
    fn withdraw(&mut self, most: u32, below: &mut u32) -> Option<Range<u32>> {
        if most == 0 {
            return None;
        }
        if let Some(present) = self.hollow.highest_present(most) {
            return Some(present);
        }
        let free = self.pages.highest_free(*below, most)?;
        self.pages.close(free.clone());
        self.hollow.add(free.clone());
        *below = free.start;
        Some(free)
    }
}

impl PageAllocator {
    /// Takes all wholly free pieces out of use. To be called at open, when all used pages are known: it is not recorded
    /// which pieces an earlier session punched, so any free piece may be a hole and must be reserved before it is used.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        let mut below = u32::MAX;
        while let Some(free) = state.pages.highest_free(below, u32::MAX) {
            state.pages.close(free.clone());
            below = free.start;
            state.hollow.add(free);
        }
    }

    /// Whether [`trim`](Self::trim) would return any space.
    pub fn has_spare(&self) -> bool {
        let mut state = self.state.lock();
        state.spare_pieces() > 0 && (state.hollow.present() > 0 || state.pages.highest_free(u32::MAX, 1).is_some())
    }

    /// Pages that could be returned once the pages that wait for a sync are free.
    pub fn spare(&self) -> u32 {
        let state = self.state.lock();
        state.spare_pieces_with(state.unsynced) * PIECE
    }

    /// Returns free space beyond the reserve to the file system, in whole pieces. Nothing durable refers to free pages,
    /// so a crash may leave the holes in any state. Does nothing where the file system cannot punch holes.
    pub fn trim(&self) -> Result<()> {
        let mut below = u32::MAX;
        loop {
            // A piece must not be reserved while it is being punched.
            let _alone = self.growth.lock();
            let pieces = {
                let mut state = self.state.lock();
                let most = state.spare_pieces().min(MAX_PUNCHED_PIECES);
                state.withdraw(most, &mut below)
            };
            let Some(pieces) = pieces else { return Ok(()) };
            let (offset, length) = bytes(&pieces);
            if !self.file.file().punch(offset, length)? {
                return Ok(());
            }
            self.state.lock().hollow.lost(pieces);
        }
    }

    /// Reserves disk space for the lowest out-of-use pieces that hold a run of `run` pages, about `pages` pages, and
    /// puts them into use again. False if there are none. The caller holds the growth lock.
    pub(super) fn reopen(&self, run: u32, pages: u32) -> Result<bool> {
        let least = run.div_ceil(PIECE);
        let lowest = self.state.lock().hollow.lowest(least, pages.div_ceil(PIECE).max(least));
        let Some(pieces) = lowest else { return Ok(false) };
        let (offset, length) = bytes(&pieces);
        self.file.file().preallocate(offset, length)?;
        let mut state = self.state.lock();
        state.hollow.remove(pieces.clone());
        state.pages.open(pieces);
        Ok(true)
    }
}

/// Offset and length of pieces in the file.
fn bytes(pieces: &Range<u32>) -> (u64, u64) {
    let piece = u64::from(PIECE) * PAGE as u64;
    (u64::from(pieces.start) * piece, pieces.len() as u64 * piece)
}
