//! The log of a tree's structure: every change of the index is one structural record, and a checkpoint is the index
//! that later records change (tree-protocol.md, invariants 3 and 7).
//!
//! A change replaces segments, or attaches overflow pages. Its new pages are synced before it is installed:
//! 1. Space for the record is reserved in the log.
//! 2. The changed nodes of the index are built beside the old ones.
//! 3. Under the write side of the install lock the record is appended and the index's root swapped.
//! 4. The replaced pages go back to the page allocator, which reuses them once the record is synced.
//!
//! Recovery loads the last checkpoint and reapplies the records behind it.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use ecotone_engine::contract::{Context, EngineCheckpoint};
use ecotone_substrate::{
    Error, Result, Seq,
    wal::{RecordKind, ReservationKind},
};

use super::{
    TreeOptions,
    blob::Blob,
    index::{Checkpoint, IndexEdit, Segment},
    logged_edit::LoggedEdit,
    store::Store,
};

/// Pages that a change has replaced. They become free once nothing refers to them.
#[derive(Debug)]
#[must_use = "the pages are lost until the next open if they are not given back"]
pub(crate) struct Replaced {
    pages: Vec<u32>,
    seq: Seq,
}

/// The structure of one keyspace in the log and in checkpoints.
#[derive(Debug)]
pub(crate) struct StructureLog {
    context: Context,
    store: Arc<Store>,
    /// A checkpoint keeps the options too.
    options: TreeOptions,
}

impl StructureLog {
    pub(crate) fn new(context: Context, store: Arc<Store>, options: TreeOptions) -> Self {
        StructureLog { context, store, options }
    }

    /// Frees replaced pages. They can be reused once the log record of their change is synced.
    pub(crate) fn give_back(&self, replaced: &Replaced) {
        self.store.space.free_later(&replaced.pages, replaced.seq);
    }

    /// Installs a change whose new pages are synced. Calls `on_install` just before, when nothing can fail any more.
    /// Returns the pages that no segment has any more.
    pub(crate) fn install(&self, edit: &LoggedEdit, on_install: impl FnOnce()) -> Result<Replaced> {
        let (wal, change) = (&self.context.shared.wal, &edit.change);
        let body = self.context.structural_record(&edit.encode());
        // The reservation never waits for a thread that waits for a claim (invariant 8).
        let reservation = wal.reserve(ReservationKind::Structure, body.len())?;
        let _guard = self.store.structure_lock.lock();
        let removed = self.removed_segments(change);
        let freed = freed(&removed, change);
        let prepared = self.store.index.prepare(change)?;
        on_install();
        let seq = {
            let _installing = self.store.install.write();
            let index = &self.store.index;
            let placed = wal.append(reservation, RecordKind::Structure, &body, |_| index.install(prepared));
            placed.seq
        };
        self.store.count_overflow(&removed, change);
        Ok(Replaced { pages: freed.into_iter().collect(), seq })
    }

    /// Reapplies a change from the log. Its pages are on disk, since they were synced before the record was appended.
    pub(crate) fn reinstall(&self, body: &[u8]) -> Result<()> {
        let edit = LoggedEdit::decode(body).map_err(|malformed| malformed.at("the log's structural record", 0))?;
        let change = edit.change;
        let _guard = self.store.structure_lock.lock();
        self.store.production.fetch_max(edit.production, Ordering::Relaxed);
        let removed = self.removed_segments(&change);
        let misfit = |error: Error| match error {
            Error::Invalid(what) => self.store.file.corruption(0, format!("the log does not fit the index: {what}")),
            other => other,
        };
        let prepared = self.store.index.prepare(&change).map_err(misfit)?;
        let before: BTreeSet<u32> = removed.iter().flat_map(Segment::all_pages).collect();
        let attached = change.attach.iter().map(|attach| attach.overflow);
        let after = change.insert.iter().flat_map(|(_, segment)| segment.all_pages()).chain(attached);
        for page in after.filter(|page| !before.contains(page)) {
            self.store.space.mark_used(page)?;
        }
        let _installing = self.store.install.write();
        self.store.index.install(prepared);
        let freed = freed(&removed, &change);
        self.store.count_overflow(&removed, &change);
        self.store.space.free_now(&freed.into_iter().collect::<Vec<_>>())
    }

    /// Writes the index's new pages and returns the root. Changes installed from now on are recovered by replay.
    pub(crate) fn take_checkpoint(&self) -> Result<EngineCheckpoint> {
        let (checkpoint, structure_position) = self.begin_checkpoint();
        Ok(EngineCheckpoint { structure_position, blob: self.end_checkpoint(checkpoint)? })
    }

    /// Snapshots the index for a checkpoint. Also returns the log position up to which the snapshot has all changes.
    pub(crate) fn begin_checkpoint(&self) -> (Checkpoint<'_>, Seq) {
        let _installing = self.store.install.read();
        (self.store.index.begin_checkpoint(&self.store.space), self.context.shared.wal.tail())
    }

    /// Writes the checkpoint, and returns the encoded root.
    pub(crate) fn end_checkpoint(&self, checkpoint: Checkpoint<'_>) -> Result<Vec<u8>> {
        let index = self.store.index.write_checkpoint(checkpoint)?;
        let production = self.store.production.load(Ordering::Relaxed);
        Ok(Blob { options: self.options, production, index }.encode())
    }

    fn removed_segments(&self, change: &IndexEdit) -> Vec<Segment> {
        let snapshot = self.store.index.snapshot();
        change.remove.iter().filter_map(|lower| snapshot.get(lower)).collect()
    }
}

/// Pages of removed segments that no inserted one has.
fn freed(removed: &[Segment], change: &IndexEdit) -> BTreeSet<u32> {
    let mut freed: BTreeSet<u32> = removed.iter().flat_map(Segment::all_pages).collect();
    change.insert.iter().flat_map(|(_, segment)| segment.all_pages()).for_each(|page| {
        freed.remove(&page);
    });
    freed
}
