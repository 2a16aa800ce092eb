//! The tree engine: a record cache over a segment store of update-in-place pages (after TreeLine, VLDB 2023).
//!
//! Writes go into the record cache and the log; reads ask the cache, then the page. Write-out merges dirty records into
//! their pages in place, in key order. A segment whose records do not fit any more is reorganised into fresh pages.
//!
//! A [`Tree`] is one keyspace. Its components, each with its own state:
//! - [`KeyspaceCache`]: its part of the record [`cache`] (T1, T3, T4).
//! - [`Store`]: the page file, the [`page_allocator`], the [`index`] and the claims on segments (T5, T6).
//! - [`PageReader`]: finds keys in pages, by [`lookup`].
//! - [`WriteOut`]: writes dirty records into their pages (T4).
//! - [`Reorganiser`]: replaces full segments by fresh ones (T10–T13), as the [`fill_policy`] plans them (T9).
//! - [`PageWriter`](page_writer::PageWriter) and [`StructureLog`]: what both write with.
//!
//! [`Writeback`] is the background work of all trees of a database. The methods of `Tree` are the engine's operations:
//! in [`keyspace`], in [`bulk`] (sorted load), and in [`ingest`] and [`clear_range`] (changes of the page tier of the
//! adaptive engine, below its tables). [`scan`] has the cursors (T17). The protocol and its invariants are in
//! `docs/design/tree-protocol.md`.

mod blob;
mod bulk;
pub mod cache;
mod check;
mod claims;
mod clear_range;
mod counters;
mod dirty;
mod factory;
mod fill_policy;
mod forecast;
pub mod index;
mod ingest;
mod keyspace;
mod keyspace_cache;
mod layout;
mod logged_edit;
mod lookup;
mod merge;
mod options;
pub mod page_allocator;
mod page_reader;
mod page_writer;
mod pinned_boundaries;
mod records;
mod reorganise;
pub mod repair;
mod sampled_stats;
mod scan;
mod segment_update;
mod store;
mod structure_log;
mod sweep;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
mod write_out;
mod writeback;

use std::{sync::Arc, time::Duration};

use ecotone_engine::{
    contract::{Admission, Context, Operation, VisitValue},
    page_cache::{PageCache, PageId},
    read_ahead::ScanLengths,
    record_cache::RecordCache,
    write_delay::WriteDelay,
};
use ecotone_substrate::{Error, Result, Seq, limits::PAGE, memory::Component, storage::FileId};

#[cfg(feature = "loom")]
pub use self::keyspace_cache::model_cache;
use self::{
    cache::{Purpose, RecordLookup},
    index::Checkpoint,
    keyspace_cache::KeyspaceCache,
    page_reader::PageReader,
    reorganise::{Progress, Reorganiser},
    store::Store,
    structure_log::StructureLog,
    write_out::WriteOut,
    writeback::Writeback,
};
pub use self::{
    factory::TreeFamily, fill_policy::PageFill, forecast::ForecastKind, layout::Model, options::TreeOptions,
};

/// How often a write retries a reservation in the cache while nothing is dirty, and the time between two tries.
const MOST_TRIES: u32 = 500;
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// One tree keyspace.
#[derive(Debug)]
pub struct Tree {
    context: Context,
    cache: Arc<KeyspaceCache>,
    /// The pages that scans keep; all keyspaces share it.
    pages: Arc<PageCache>,
    store: Arc<Store>,
    reader: PageReader,
    structure_log: Arc<StructureLog>,
    reorganiser: Arc<Reorganiser>,
    write_out: Arc<WriteOut>,
    /// The background write-out of all tree keyspaces.
    writeback: Arc<Writeback>,
    /// Statistics of the lengths of scans.
    lengths: ScanLengths,
}

impl Tree {
    fn check_live(&self) -> Result<()> {
        self.cache.check_live()
    }

    /// The tree's record cache, for an engine that stores records outside of the pages as well.
    pub fn record_cache(&self) -> Arc<dyn RecordCache> {
        self.cache.clone()
    }

    /// The file of the pages.
    pub fn file(&self) -> FileId {
        self.store.file.id()
    }

    /// Bytes of pages written since the tree was opened.
    pub fn bytes_written(&self) -> u64 {
        self.store.file.traffic().written_pages() * PAGE as u64
    }

    /// Pages that a checkpoint could return to the file system; 0 if they are few.
    pub fn spare_pages(&self) -> u32 {
        self.store.space.spare()
    }

    /// The identifier of a page in the page cache.
    fn page_id(&self, page: u32) -> PageId {
        PageId::of_tree(self.cache.number(), page)
    }

    /// Reserves a slot in the cache for an operation. Waits for write-out if there is no space.
    ///
    /// # Errors
    /// [`Error::Memory`] if nothing is dirty and there is still no space after many tries: other components hold the
    /// memory.
    fn take_slot(&self, operation: Operation<'_>, delay: &mut WriteDelay<'_>) -> Result<Admission<'_>> {
        let shared = &self.context.shared;
        for _ in 0..MOST_TRIES {
            if let Some(admission) = self.cache.reserve(operation) {
                return Ok(admission);
            }
            while self.cache.dirty_bytes() > 0 {
                self.writeback.make_room(shared, delay)?;
                if let Some(admission) = self.cache.reserve(operation) {
                    return Ok(admission);
                }
            }
            // Other writers hold reservations that they have not applied yet.
            shared.health.check()?;
            delay.sleep(TRY_AGAIN);
        }
        Err(Error::Memory { what: Component::RecordCache.name(), budget: shared.memory.budget() as u64 })
    }

    fn no_delay(&self) -> WriteDelay<'_> {
        WriteDelay::new(&self.writeback.delays, &*self.context.shared.clock)
    }

    /// Looks up a key in the cache, then in its page, and appends its value to `value`. False if there is none.
    fn find(&self, key: &[u8], value: &mut Vec<u8>, purpose: Purpose) -> Result<bool> {
        self.check_live()?;
        let ticket = match self.cache.get(key, purpose, |found| value.extend_from_slice(found)) {
            RecordLookup::Value(()) => return Ok(true),
            RecordLookup::Tombstone => return Ok(false),
            RecordLookup::Missing(ticket) => ticket,
        };
        let start = value.len();
        let found = self.reader.find(key, value)?;
        if found && purpose == Purpose::Read {
            self.cache.admit_clean(key, &value[start..], &ticket);
        }
        Ok(found)
    }

    /// Looks up a key in its page only, and appends its value to `value`. False if there is none.
    pub fn find_in_pages(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.reader.find(key, value)
    }

    /// Looks up many keys in their pages only.
    pub fn find_many_in_pages(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.check_live()?;
        self.reader.find_many(keys.iter().enumerate().map(|(position, key)| (*key, position)), found)
    }

    /// Reorganises the segments of these keys, with neighbours that have overflow pages or are small. With `sparse`, a
    /// segment is always merged with at least one neighbour.
    pub fn reorganise(&self, keys: &[Vec<u8>], sparse: bool) -> Result<Progress> {
        self.reorganiser.reorganise(keys, sparse)
    }

    /// Notes that a round over the whole key space has ended, so an epoch of the forecast may end.
    pub fn end_forecast_round(&self) {
        self.write_out.end_round();
    }

    /// Snapshots the index for a checkpoint. Also returns the log position up to which the snapshot has all changes.
    pub fn begin_checkpoint(&self) -> (Checkpoint<'_>, Seq) {
        self.structure_log.begin_checkpoint()
    }

    /// Writes the checkpoint, and returns the encoded root.
    pub fn end_checkpoint(&self, checkpoint: Checkpoint<'_>) -> Result<Vec<u8>> {
        self.structure_log.end_checkpoint(checkpoint)
    }
}
