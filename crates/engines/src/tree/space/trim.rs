//! Free space goes back to the file system, and is reserved again before it is used (decision 2, "Space").

#[cfg(test)]
mod tests;

use std::ops::Range;

use ecotone_substrate::{Result, limits::PAGE};

use super::{Space, State, bitmap::BLOCK};

/// Space is given back when more than this part of the used pages is free, and [`FLOOR`] twice, ...
const HIGH: u32 = 8;
/// ... until this part of them and [`FLOOR`] are left.
const LOW: u32 = 16;
/// In pages: 1 MiB.
const FLOOR: u32 = 256;
/// Blocks that are given back at a time, while the file cannot grow: 64 MiB.
const STRETCH: u32 = 256;

impl State {
    /// Whole blocks that are free, or may have their space though they are out of use, beyond what is worth keeping.
    fn spare_blocks(&self) -> u32 {
        let (used, free) = (self.used(), self.pages.free() + self.hollow.present() * BLOCK);
        if free <= used / HIGH + 2 * FLOOR { 0 } else { (free - used / LOW - FLOOR) / BLOCK }
    }

    /// Chooses blocks to be punched, and takes them out of use: of those that are out of use already, or else the highest that are free below block `below`.
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
    /// To be called when all pages in use are known: whole blocks that are free may be holes, since nobody noted what was punched in an earlier life, so they must be
    /// reserved before they are used.
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
        state.spare_blocks() > 0 && (state.hollow.present() > 0 || state.pages.highest_free(u32::MAX, 1).is_some())
    }

    /// Gives free space beyond what is worth keeping back to the file system, whole blocks of it. What is free has no durable name any more, so it does not matter
    /// what a crash leaves of the holes. Does nothing where the file system cannot punch holes.
    pub fn trim(&self) -> Result<()> {
        let mut below = u32::MAX;
        loop {
            // A block must not be reserved while it is being punched.
            let _alone = self.growth.lock();
            let blocks = {
                let mut state = self.state.lock();
                let most = state.spare_blocks().min(STRETCH);
                state.withdraw(most, &mut below)
            };
            let Some(blocks) = blocks else { return Ok(()) };
            let (offset, length) = bytes(&blocks);
            if !self.file.file().punch(offset, length)? {
                return Ok(());
            }
            self.state.lock().hollow.lost(blocks);
        }
    }

    /// Reserves space for the lowest blocks out of use, about `pages` of them, and puts them into use again. False if there are none. With the growth lock
    /// held.
    pub(super) fn reopen(&self, pages: u32) -> Result<bool> {
        let Some(blocks) = self.state.lock().hollow.lowest(pages.div_ceil(BLOCK)) else { return Ok(false) };
        let (offset, length) = bytes(&blocks);
        self.file.file().preallocate(offset, length)?;
        let mut state = self.state.lock();
        state.hollow.remove(blocks.clone());
        state.pages.open(blocks);
        Ok(true)
    }
}

/// Offset and length of blocks in the file.
fn bytes(blocks: &Range<u32>) -> (u64, u64) {
    let block = u64::from(BLOCK) * PAGE as u64;
    (u64::from(blocks.start) * block, blocks.len() as u64 * block)
}
