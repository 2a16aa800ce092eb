//! The record cache as one keyspace sees it: the keyspace's records in the cache that all trees share, and counts of
//! its writes.
//!
//! The way of a write through the cache:
//! 1. [`reserve`](KeyspaceCache::reserve) takes a cell before the write enters the log, so applying it cannot fail.
//! 2. [`apply`](KeyspaceCache::apply) makes the record visible and dirty: the cache holds it until it is in its page.
//! 3. [`begin_write`](KeyspaceCache::begin_write) takes the dirty records of a claimed segment for write-out. They stay
//!    readable, and hold back the watermark.
//! 4. [`end_write`](KeyspaceCache::end_write) makes them clean once their pages are synced. After a failure
//!    [`abort_write`](KeyspaceCache::abort_write) makes them dirty again.
//!
//! Other engines use the cache through [`RecordCache`], as a clean read cache: every record in it is also stored
//! elsewhere, and none is dirty (adaptive-protocol.md, invariant 9).

use std::sync::{Arc, atomic::Ordering};

use ecotone_engine::{
    contract::{Admission, Operation, Release, Stats},
    record_cache::{CacheLookup, CacheTicket, RecordCache},
    remaining_range::{Direction, RemainingRange},
    superseded::SupersededReports,
};
use ecotone_substrate::{Error, Result, Seq};
use ecotone_sys::primitive::atomic::{AtomicBool, AtomicU64};

use super::{
    cache::{Applied, Cache, CacheKeyspace, DirtyOverlay, KeySpan, Purpose, RecordLookup, RecordTicket},
    dirty::DirtyRecords,
    store::SegmentRange,
};

/// One keyspace's part of the record cache.
#[derive(Debug)]
pub(crate) struct KeyspaceCache {
    cache: Arc<Cache>,
    keyspace: CacheKeyspace,
    /// Whether clean records are kept: those that were read, and those that were written out.
    keeps_clean: bool,
    /// The largest applied sequence.
    newest: AtomicU64,
    /// Deletes since the last full flush.
    deletes: AtomicU64,
    is_dropped: AtomicBool,
    reports: SupersededReports,
}

/// A small record cache of one keyspace, for loom models of other engines.
#[cfg(feature = "loom")]
#[doc(hidden)]
pub fn model_cache() -> Arc<dyn RecordCache> {
    let cache = Cache::new(ecotone_substrate::memory::Memory::new(16 << 20), 7, 1 << 20);
    Arc::new(KeyspaceCache::new(cache, CacheKeyspace { number: 0, logged: true }, true, SupersededReports::default()))
}

impl KeyspaceCache {
    pub(crate) fn new(
        cache: Arc<Cache>,
        keyspace: CacheKeyspace,
        keeps_clean: bool,
        reports: SupersededReports,
    ) -> Self {
        KeyspaceCache {
            cache,
            keyspace,
            keeps_clean,
            newest: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            is_dropped: AtomicBool::new(false),
            reports,
        }
    }

    /// The keyspace's number within the caches.
    pub(crate) fn number(&self) -> u16 {
        self.keyspace.number
    }

    /// The reports of the keyspace's superseded versions.
    pub(crate) fn reports(&self) -> &SupersededReports {
        &self.reports
    }

    /// # Errors
    /// [`Error::Closed`] if the keyspace was dropped.
    pub(crate) fn check_live(&self) -> Result<()> {
        if self.is_dropped() { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// Drops all records of the keyspace. A write that was admitted before is applied without effect.
    pub(crate) fn mark_dropped(&self) {
        self.is_dropped.store(true, Ordering::SeqCst);
        self.cache.forget_keyspace(self.keyspace);
    }

    /// The newest value of a key, or a ticket for reading its page. `take` copies the value.
    pub(crate) fn get<T>(&self, key: &[u8], purpose: Purpose, take: impl FnOnce(&[u8]) -> T) -> RecordLookup<T> {
        self.cache.get(self.keyspace.number, key, purpose, take)
    }

    /// Offers a record that was read from a page after the miss that gave the ticket.
    pub(crate) fn admit_clean(&self, key: &[u8], value: &[u8], ticket: &RecordTicket) {
        if self.keeps_clean {
            self.cache.admit_clean(self.keyspace.number, key, value, ticket);
        }
    }

    /// Reserves a cell for an operation. `None` if all other records are dirty or reserved.
    pub(crate) fn reserve(&self, operation: Operation<'_>) -> Option<Admission<'_>> {
        let value_len = operation.value.map_or(0, <[u8]>::len);
        self.cache.reserve(self.keyspace, operation.key, value_len).map(|slot| Admission::new(self, slot))
    }

    /// Puts a record into its reserved cell, as dirty.
    pub(crate) fn apply(&self, admission: Admission<'_>, seq: Seq, Operation { key, value }: Operation<'_>) {
        let slot = admission.into_reserved();
        self.newest.fetch_max(seq, Ordering::AcqRel);
        self.count_delete(value);
        // If the keyspace was dropped since the write was admitted, the record is never read or written out.
        let applied = Applied { key, value, seq, reports: &self.reports };
        self.cache.apply(slot, self.keyspace, applied, &|| self.is_dropped());
    }

    /// Replaces a dirty record in place, if its cell is large enough. False if nothing was done.
    pub(crate) fn overwrite(&self, Operation { key, value }: Operation<'_>) -> bool {
        let applied = Applied { key, value, seq: self.reports.tail(), reports: &self.reports };
        let is_done = self.cache.overwrite(self.keyspace, applied);
        if is_done {
            self.count_delete(value);
        }
        is_done
    }

    fn count_delete(&self, value: Option<&[u8]>) {
        if value.is_none() {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The largest applied sequence.
    pub(crate) fn newest(&self) -> Seq {
        self.newest.load(Ordering::Acquire)
    }

    /// Deletes since the last full flush.
    pub(crate) fn deletes(&self) -> u64 {
        self.deletes.load(Ordering::Relaxed)
    }

    /// Notes that so many deletes were written out.
    pub(crate) fn subtract_deletes(&self, flushed: u64) {
        let less = |all: u64| Some(all.saturating_sub(flushed));
        let _ = self.deletes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Bytes of the dirty records of all keyspaces that share the cache.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.cache.dirty_bytes()
    }

    /// Records that are dirty or being written.
    pub(crate) fn dirty_records(&self) -> usize {
        self.cache.dirty_records(self.keyspace)
    }

    /// Upper bound of the number of pages of a segment that have dirty records.
    pub(crate) fn dirty_pages(&self, at: &SegmentRange) -> usize {
        let most = at.segment.base_count().into();
        self.cache.dirty_within(self.keyspace, &at.all(), most).min(most)
    }

    /// A lower bound of the first sequence since which any record is dirty or being written.
    pub(crate) fn first_dirty(&self) -> Option<Seq> {
        self.cache.first_dirty(self.keyspace)
    }

    /// The first key of a range whose record is dirty or being written since a sequence below `below`, or a little
    /// above it.
    pub(crate) fn next_dirty(&self, span: &KeySpan, below: Seq) -> Option<Vec<u8>> {
        self.cache.next_dirty(self.keyspace, span, below)
    }

    /// Takes dirty records of a range for writing, about `most` bytes from its beginning, and returns them with the
    /// part of the range that was covered. The caller has claimed the range.
    pub(crate) fn begin_write(&self, span: &KeySpan, most: usize) -> (DirtyRecords, KeySpan) {
        self.cache.begin_write(self.keyspace, span, most)
    }

    /// Ends a write: the records taken from this range are in their pages.
    pub(crate) fn end_write(&self, taken: &KeySpan) {
        self.cache.end_write(self.keyspace, taken, self.keeps_clean);
    }

    /// Aborts a write: the records taken from this range become dirty again.
    pub(crate) fn abort_write(&self, taken: &KeySpan) {
        self.cache.abort_write(self.keyspace, taken);
    }

    /// Entries and number of the leaves of the dirty index that hold nothing but dirty records of the range.
    pub(crate) fn index_fill(&self, span: &KeySpan) -> (usize, usize) {
        self.cache.fill(self.keyspace, span)
    }

    /// Copies dirty records of a range that remain of a scan: the first ones in scan order, up to `most` bytes.
    pub(crate) fn peek(
        &self,
        span: &KeySpan,
        rest: &RemainingRange,
        direction: Direction,
        most: usize,
    ) -> DirtyOverlay {
        self.cache.peek(self.keyspace, span, rest, direction, most)
    }

    /// Copies all dirty records of a range.
    pub(crate) fn peek_all(&self, span: &KeySpan) -> DirtyRecords {
        self.cache.peek_all(self.keyspace, span)
    }
}

impl Release for KeyspaceCache {
    /// Releases a reserved cell.
    fn release(&self, reserved: u64) {
        self.cache.cancel(reserved, self.keyspace);
    }
}

impl RecordCache for KeyspaceCache {
    fn lookup(&self, key: &[u8], value: &mut Vec<u8>) -> CacheLookup {
        match self.get(key, Purpose::Read, |found| value.extend_from_slice(found)) {
            RecordLookup::Value(()) => CacheLookup::Found,
            RecordLookup::Missing(ticket) => CacheLookup::Missing(CacheTicket(ticket.words())),
            RecordLookup::Tombstone => unreachable!("nobody writes to the cache of such a keyspace"),
        }
    }

    fn admit(&self, key: &[u8], value: &[u8], CacheTicket(words): CacheTicket) {
        self.admit_clean(key, value, &RecordTicket::of(words));
    }

    fn refresh(&self, key: &[u8], value: Option<&[u8]>) {
        self.cache.refresh(self.keyspace.number, key, value);
    }

    fn invalidate(&self) {
        debug_assert_eq!(self.dirty_records(), 0, "the record cache of another engine has clean records alone");
        self.cache.forget_keyspace(self.keyspace);
    }

    fn stats(&self) -> Stats {
        self.cache.stats()
    }
}
