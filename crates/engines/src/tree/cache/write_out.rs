//! The write-out of a page's dirty records, as far as the cache has a part in it (mechanism T4).

use std::ops::Bound;

use ecotone_substrate::{Seq, bug};

use super::{
    Cache,
    dirty::{Entry, PASSES},
    handle::{Address, Handle},
    nearest::{Collector, Nearest},
    record::{self, Meta},
    shard::Shard,
};
use crate::rest::{Direction, Rest};

/// A copy of a record whose newest content may not be in its page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirtyRecord {
    /// Its key.
    pub(crate) key: Vec<u8>,
    /// Its value, or `None` if it was deleted.
    pub(crate) value: Option<Vec<u8>>,
}

impl Shard {
    /// The state of the record at `handle`, if it is the one that `entry` chains. Entries of records that were written again are
    /// stale.
    fn chained(&self, handle: Handle, entry: Entry) -> Option<Meta> {
        let cell = self.slabs.probe(handle)?;
        let meta = record::meta(cell);
        (meta.live() && meta.chained() && record::entry(cell) == entry.0).then_some(meta)
    }

    fn copy(&self, handle: Handle) -> DirtyRecord {
        let cell = self.slabs.cell(handle);
        DirtyRecord { key: record::key(cell).to_vec(), value: record::value(cell).map(<[u8]>::to_vec) }
    }

    fn begin_write(&mut self, handle: Handle, entry: Entry, bytes: &mut usize) -> Option<DirtyRecord> {
        let meta = self.chained(handle, entry)?;
        *bytes += meta.bytes();
        self.set_meta(handle, meta.as_writing());
        (!(bug!(DropTombstone) && meta.tombstone())).then(|| self.copy(handle))
    }

    fn end_write(&mut self, handle: Handle, entry: Entry, keep: bool) {
        let Some(meta) = self.chained(handle, entry).or_else(|| self.rewritten(handle)) else { return };
        if meta.tombstone() || !keep {
            self.remove(handle);
        } else {
            self.common.heat.note(meta.bytes(), meta.is_hot());
            self.set_meta(handle, meta.as_clean());
        }
    }

    /// The known bug: a record that was written again meanwhile is taken for clean.
    fn rewritten(&self, handle: Handle) -> Option<Meta> {
        let cell = self.slabs.probe(handle).filter(|_| bug!(CleanAfterRewrite))?;
        Some(record::meta(cell)).filter(|meta| meta.live() && meta.dirty())
    }

    fn abort_write(&mut self, handle: Handle, entry: Entry) {
        if let Some(meta) = self.chained(handle, entry) {
            self.set_meta(handle, meta.as_dirty());
        }
    }

    fn rehome(&mut self, handle: Handle, entry: Entry, first: Seq, page_of: &mut dyn FnMut(&[u8]) -> u32) {
        if self.chained(handle, entry).is_none() {
            return;
        }
        let cell = self.slabs.cell(handle);
        let (keyspace, page) = (record::keyspace(cell), page_of(record::key(cell)));
        let entry = self.common.chains.pass(keyspace, page, self.address(handle), first);
        record::set_entry(self.slabs.cell_mut(handle), entry.0);
    }
}

impl Cache {
    /// Pages of a keyspace with dirty records whose first sequence is below `below`, ascending. Pages that are being written are
    /// not among them, unless they were written to since; nor may those be that take over records of other pages meanwhile.
    pub(crate) fn dirty_pages(&self, keyspace: u16, below: Seq) -> Vec<u32> {
        self.common.chains.pages(keyspace, below)
    }

    /// The smallest first sequence of all pages with records that are dirty or being written, or of one whose records were a moment ago. A write
    /// whose application ended before the call is seen; one that is applied meanwhile may not be.
    pub(crate) fn first_dirty(&self, keyspace: u16) -> Option<Seq> {
        self.common.chains.first(keyspace)
    }

    /// Records of a keyspace that are dirty or being written; one that is both counts twice.
    pub(crate) fn dirty_records(&self, keyspace: u16) -> usize {
        self.common.chains.count(keyspace)
    }

    /// Does `act` on an entry of a chain that nobody else frees, with the shard of its record locked. A record never leaves its
    /// shard, and under
    /// that lock its entry is exact.
    fn for_entry(&self, (entry, address): (Entry, Address), mut act: impl FnMut(&mut Shard, Handle, Entry)) {
        let mut shard = self.shards[address.shard()].lock();
        // Mostly it has not moved since its address was copied, and then the record itself says so.
        let moved = shard.chained(address.handle(), entry).is_none();
        let handle = if moved { self.common.chains.at(entry).handle() } else { address.handle() };
        act(&mut shard, handle, entry);
    }

    fn for_writing(&self, keyspace: u16, page: u32, act: impl Fn(&mut Shard, Handle, Entry)) {
        let mut last = None;
        while let Some(piece) = self.common.chains.writing(keyspace, page, last) {
            piece.entries().for_each(|entry| self.for_entry(entry, &act));
            last = Some(piece.number);
        }
    }

    /// Takes dirty records of a page for writing: about `most` bytes of keys and values, those first that were chained first.
    /// They are given by key, stay
    /// readable, and count as unflushed until [`end_write`](Self::end_write). All their sequences are below the log's tail at the
    /// return of this
    /// call. One write-out of a page at a time; if nothing is given, it has ended.
    pub(crate) fn begin_write(&self, keyspace: u16, page: u32, most: usize) -> Vec<DirtyRecord> {
        self.common.chains.begin_write(keyspace, page);
        let (mut records, mut bytes, mut last) = (Vec::new(), 0, None);
        while let Some(piece) = self.common.chains.writing(keyspace, page, last) {
            for entry in piece.entries() {
                self.for_entry(entry, |shard, handle, entry| records.extend(shard.begin_write(handle, entry, &mut bytes)));
            }
            if bytes >= most && self.common.chains.give_back(keyspace, page, piece.number) {
                break;
            }
            last = Some(piece.number);
        }
        if records.is_empty() {
            self.end_write(keyspace, page, true);
        }
        records.sort_unstable();
        records
    }

    /// What [`begin_write`](Self::begin_write) took is in the page, synced: records that were not written again are clean, and go unless they are to
    /// be kept; tombstones go.
    pub(crate) fn end_write(&self, keyspace: u16, page: u32, keep: bool) {
        self.for_writing(keyspace, page, |shard, handle, entry| shard.end_write(handle, entry, keep));
        self.common.chains.end_write(keyspace, page);
    }

    /// What [`begin_write`](Self::begin_write) took was not written: it is dirty as before, since the same sequence.
    pub(crate) fn abort_write(&self, keyspace: u16, page: u32) {
        self.for_writing(keyspace, page, Shard::abort_write);
        self.common.chains.abort_write(keyspace, page);
    }

    /// Copies of all records of a page that are dirty or being written, by key. Call it before reading the page, under the lock
    /// that
    /// keeps [`rehome`](Self::rehome) away: what it does not give is in the page then.
    pub(crate) fn peek_dirty(&self, keyspace: u16, page: u32) -> Vec<DirtyRecord> {
        let everything = Rest::new((Bound::Unbounded, Bound::Unbounded));
        self.peek_nearest(keyspace, page, &everything, Direction::Up, usize::MAX).records
    }

    /// As [`peek_dirty`](Self::peek_dirty), of the records that are left of a scan, as many as take `most` bytes of memory: those that it comes to first.
    pub(crate) fn peek_nearest(&self, keyspace: u16, page: u32, rest: &Rest, direction: Direction, most: usize) -> Nearest {
        // What is copied lies outside of the budget.
        let _alone = self.common.chains.is_long(keyspace, page).then(|| self.copying.lock());
        loop {
            let copied = self.common.chains.chained(keyspace, page);
            let mut nearest = Collector::new(direction, most);
            for (entry, address) in &copied.entries {
                let shard = self.shards[address.shard()].lock();
                if shard.chained(address.handle(), *entry).is_none() {
                    continue;
                }
                let key = record::key(shard.slabs.cell(address.handle()));
                if rest.contains(key) && nearest.wants(key) {
                    nearest.add(shard.copy(address.handle()));
                }
            }
            // Where there are no entries, one look under the lock of all its chains has seen it.
            if copied.entries.is_empty() || !self.common.chains.has_changed(keyspace, page, &copied) {
                return nearest.end();
            }
        }
    }

    /// Other pages took a page's place: its dirty records are chained to those that `page_of` gives. The caller keeps
    /// [`apply`](Self::apply) and [`peek_dirty`](Self::peek_dirty) away meanwhile.
    pub(crate) fn rehome(&self, keyspace: u16, old_page: u32, page_of: &mut dyn FnMut(&[u8]) -> u32) {
        let _alone = self.rehoming.lock();
        let Some(first) = self.common.chains.leave(keyspace, old_page) else { return };
        let mut passed = 0;
        while let Some(piece) = self.common.chains.leaving(keyspace, old_page) {
            for entry in piece.entries() {
                if passed % PASSES == 0 {
                    self.common.chains.provide_for_passing(&|| self.spare_block());
                }
                passed += 1;
                self.for_entry(entry, |shard, handle, entry| shard.rehome(handle, entry, first, page_of));
            }
            self.common.chains.left(keyspace, old_page);
        }
    }
}
