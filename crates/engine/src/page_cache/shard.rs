//! A shard of the page cache under one mutex: slabs cut into frames, and a clock over the table's entries.

use ecotone_substrate::{
    limits::PAGE,
    memory::{Component, Memory},
};
use ecotone_sys::chunk::{Block, Size};

use super::table::{Entry, FRAMES, PLACES, PageId, Table};

/// Frames of a slab.
const SLAB_FRAMES: usize = Size::Slab.bytes() / PAGE;
/// Pages to admit after a refusal before the budget is asked again.
const SKIPS_AFTER_REFUSAL: u8 = 63;

/// One shard. Only whole slabs move between caches, so the shard cuts them into frames itself.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: Option<Table>,
    slabs: Vec<Option<Block>>,
    free: Vec<u16>,
    /// The next places in the table for the clock and for the sweep of ghosts.
    hand: usize,
    broom: usize,
    /// Entries with a frame, and without one.
    pages: usize,
    ghosts: usize,
    hits: u64,
    misses: u64,
    /// Pages to admit before the budget is asked for a slab.
    skips_left: u8,
}

impl Shard {
    fn find(&self, id: PageId) -> Option<(usize, Entry)> {
        let table = self.table.as_ref()?;
        let place = table.find(id)?;
        Some((place, table.get(place)?))
    }

    /// Whether a page is cached; counts as an access.
    pub(super) fn touch(&mut self, id: PageId) -> bool {
        let page = self.find(id).filter(|(_, entry)| entry.frame().is_some());
        match (page, &mut self.table) {
            (Some((place, _)), Some(table)) => {
                table.promote(place);
                self.hits += 1;
            }
            _ => self.misses += 1,
        }
        page.is_some()
    }

    /// Whether a page is cached, without counting an access.
    pub(super) fn has(&self, id: PageId) -> bool {
        self.find(id).is_some_and(|(_, entry)| entry.frame().is_some())
    }

    /// Copies a page, if it is cached.
    pub(super) fn copy(&self, id: PageId, to: &mut [u8]) -> bool {
        let frame = self.find(id).and_then(|(_, entry)| entry.frame());
        frame.is_some_and(|frame| {
            to.copy_from_slice(self.frame(frame));
            true
        })
    }

    /// Copies a page, if it is cached, and counts an access.
    pub(super) fn read(&mut self, id: PageId, to: &mut [u8]) -> bool {
        self.touch(id) && self.copy(id, to)
    }

    /// Admits a page unless it is cached. When memory is short, it admits only pages that were cached or refused
    /// lately. True if the budget should be asked for more.
    pub(super) fn admit(&mut self, id: PageId, page: &[u8], memory: (&Memory, Component)) -> bool {
        let known = self.find(id).map(|(_, entry)| entry.frame());
        if let Some(Some(_)) = known {
            return false;
        }
        let is_refused = self.free.is_empty() && !self.grow(memory) && self.skips_left == SKIPS_AFTER_REFUSAL;
        let frame = match (self.free.pop(), known) {
            (None, Some(None)) => self.evict(),
            (free, _) => free,
        };
        match frame {
            Some(frame) => {
                self.frame_mut(frame).copy_from_slice(page);
                // Only now, since the clock may have passed it.
                self.forget(id);
                self.pages += 1;
            }
            None if self.find(id).is_some() || self.table.is_none() => return is_refused,
            None => self.ghosts += 1,
        }
        self.table.iter_mut().for_each(|table| table.insert(id, frame));
        self.sweep();
        is_refused
    }

    pub(super) fn forget(&mut self, id: PageId) {
        if let Some((place, _)) = self.find(id) {
            self.remove(place);
        }
    }

    pub(super) fn forget_keyspace(&mut self, keyspace: u16) {
        self.remove_where(|entry| entry.id().keyspace() == keyspace);
    }

    /// Gives back the slab with the least valuable pages, and with the last slab the table; returns the bytes.
    pub(super) fn give_back(&mut self) -> usize {
        let mut worth: Vec<u64> = vec![0; self.slabs.len()];
        for (_, entry) in self.table.iter().flat_map(Table::entries) {
            entry.frame().into_iter().for_each(|frame| worth[slab_of(frame)] += 1 + entry.priority());
        }
        let held = (0..self.slabs.len()).filter(|slab| self.slabs[*slab].is_some());
        let mut given = 0;
        if let Some(slab) = held.min_by_key(|slab| worth[*slab]) {
            self.remove_where(|entry| entry.frame().is_some_and(|frame| slab_of(frame) == slab));
            self.free.retain(|frame| slab_of(*frame) != slab);
            self.slabs[slab] = None;
            given += Size::Slab.bytes();
        }
        if self.slabs.iter().all(Option::is_none) && self.table.take().is_some() {
            self.ghosts = 0;
            given += Size::Slab.bytes();
        }
        given
    }

    /// Gives back slabs without pages.
    pub(super) fn trim(&mut self) {
        let mut free: Vec<usize> = vec![0; self.slabs.len()];
        self.free.iter().for_each(|frame| free[slab_of(*frame)] += 1);
        let is_empty = |frame: u16| free[slab_of(frame)] == SLAB_FRAMES;
        self.free.retain(|frame| !is_empty(*frame));
        self.slabs.iter_mut().zip(&free).filter(|(_, free)| **free == SLAB_FRAMES).for_each(|(slab, _)| *slab = None);
    }

    /// Pages, hits and misses.
    pub(super) fn counts(&self) -> [u64; 3] {
        [self.pages as u64, self.hits, self.misses]
    }

    /// Leases a slab, but not too often after a refusal.
    fn grow(&mut self, (memory, component): (&Memory, Component)) -> bool {
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return false;
        }
        let lease = || memory.lease(component, Size::Slab);
        if self.table.is_none() {
            self.table = lease().map(Table::new);
        }
        let place = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        let may_grow = self.table.is_some() && place < FRAMES / SLAB_FRAMES;
        match may_grow.then(lease).flatten() {
            None => self.skips_left = SKIPS_AFTER_REFUSAL,
            Some(block) => {
                self.slabs.resize_with(self.slabs.len().max(place + 1), || None);
                self.slabs[place] = Some(block);
                self.free.extend((place * SLAB_FRAMES..(place + 1) * SLAB_FRAMES).map(|frame| frame as u16));
            }
        }
        self.skips_left == 0
    }

    /// Evicts the first page that the clock finds at priority 0, lowering others on the way; returns its frame.
    fn evict(&mut self) -> Option<u16> {
        let table = self.table.as_mut().filter(|_| self.pages > 0)?;
        loop {
            self.hand += 1;
            let is_page = table.get(self.hand).is_some_and(|entry| entry.frame().is_some());
            if is_page && !table.demote(self.hand) {
                self.remove(self.hand);
                return self.free.pop();
            }
        }
    }

    /// Removes ghosts while there are more of them than pages, or the table is half full.
    fn sweep(&mut self) {
        while self.ghosts > self.pages.min((PLACES / 2).saturating_sub(self.pages)) {
            self.broom += 1;
            let place = self.broom;
            let found = self.table.as_ref().and_then(|table| table.get(place));
            if found.is_some_and(|entry| entry.frame().is_none()) {
                self.remove(place);
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let Some(table) = &mut self.table else { return };
        let Some(entry) = table.get(place) else { return };
        table.remove(place);
        match entry.frame() {
            Some(frame) => {
                self.free.push(frame);
                self.pages -= 1;
            }
            None => self.ghosts -= 1,
        }
    }

    fn remove_where(&mut self, goes: impl Fn(Entry) -> bool) {
        let all = self.table.iter().flat_map(Table::entries);
        let ids: Vec<PageId> = all.filter(|(_, entry)| goes(*entry)).map(|(_, entry)| entry.id()).collect();
        ids.into_iter().for_each(|id| self.forget(id));
    }

    fn frame(&self, frame: u16) -> &[u8] {
        let slab = self.slabs[slab_of(frame)].as_deref().unwrap_or_default();
        &slab[usize::from(frame) % SLAB_FRAMES * PAGE..][..PAGE]
    }

    fn frame_mut(&mut self, frame: u16) -> &mut [u8] {
        let slab = self.slabs[slab_of(frame)].as_deref_mut().unwrap_or_default();
        &mut slab[usize::from(frame) % SLAB_FRAMES * PAGE..][..PAGE]
    }
}

fn slab_of(frame: u16) -> usize {
    usize::from(frame) / SLAB_FRAMES
}
