//! Free space goes back to the file system, and is reserved again before it is used (decision 2, "Space").

#[cfg(test)]
mod tests;

use std::ops::Range;

use ecotone_substrate::{Result, limits::PAGE};

use super::{Space, State, bitmap::PIECE};

/// Space is given back when more than this part of the used pages is free, and [`FLOOR`] twice, ...
const HIGH: u32 = 24;
/// ... until this part of them and [`FLOOR`] are left.
const LOW: u32 = 48;
/// In pages: an eighth of a MiB.
const FLOOR: u32 = 32;
/// Pieces that are given back at a time, while the file cannot grow: 64 MiB.
const STRETCH: u32 = 4096;

impl State {
    /// Whole pieces that are free, or may have their space though they are out of use, beyond what is worth keeping.
    fn spare_pieces(&self) -> u32 {
        self.spare_pieces_with(0)
    }

    /// The same once so many pages more are free.
    fn spare_pieces_with(&self, freed: u32) -> u32 {
        let (used, free) = (self.used() - freed, self.pages.free() + self.hollow.present() * PIECE + freed);
        if free <= used / HIGH + 2 * FLOOR { 0 } else { (free - used / LOW - FLOOR) / PIECE }
    }

    /// Chooses pieces to be punched, and takes them out of use: of those that are out of use already, or else the
    /// highest that are free below piece `below`.
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

impl Space {
    /// To be called when all pages in use are known: whole pieces that are free may be holes, since nobody noted what
    /// was punched in an earlier life, so they must be reserved before they are used.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        let mut below = u32::MAX;
        while let Some(free) = state.pages.highest_free(below, u32::MAX) {
            state.pages.close(free.clone());
            below = free.start;
            state.hollow.add(free);
        }
    }

    /// Whether [`trim`](Self::trim) would give something back.
    pub fn has_spare(&self) -> bool {
        let mut state = self.state.lock();
        state.spare_pieces() > 0 && (state.hollow.present() > 0 || state.pages.highest_free(u32::MAX, 1).is_some())
    }

    /// Pages that could be given back once what waits for a sync is free.
    pub fn spare(&self) -> u32 {
        let state = self.state.lock();
        state.spare_pieces_with(state.unsynced) * PIECE
    }

    /// Gives free space beyond what is worth keeping back to the file system, whole pieces of it. What is free has no
    /// durable name any more, so it does not matter what a crash leaves of the holes. Does nothing where the file
    /// system cannot punch holes.
    pub fn trim(&self) -> Result<()> {
        let mut below = u32::MAX;
        loop {
            // A piece must not be reserved while it is being punched.
            let _alone = self.growth.lock();
            let pieces = {
                let mut state = self.state.lock();
                let most = state.spare_pieces().min(STRETCH);
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

    /// Reserves space for the lowest pieces out of use that have room for a run of `run` pages, about `pages` of them,
    /// and puts them into use again. False if there are none. With the growth lock held.
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
