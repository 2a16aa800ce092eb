//! The segment index: maps key ranges to segments.
//!
//! The index maps the lower fence of every segment to the segment's pages. It is a copy-on-write B+-tree of 4 KiB
//! pages: published nodes never change. An edit builds the changed nodes beside the old ones and then swaps the root.
//! Readers load the root and descend without locks; the whole index is in memory. A checkpoint writes the nodes that
//! are not on disk yet into free space. The layout on disk is in `docs/format/tree-index.md`.

mod change;
mod checkpoint;
mod fences;
mod load;
mod node;
mod pack;
mod placement;
mod root;
mod segment;
mod segment_pages;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use ecotone_substrate::{Result, memory::Memory, page::PageKind};
use ecotone_sys::primitive::Mutex;

pub use change::{Attach, IndexEdit, Prepared};
pub use checkpoint::Checkpoint;
pub(crate) use fences::encoded_len as fence_len;
use node::{Entry, Item, Meter};
use pack::{Builder, Fill, Packing};
pub use placement::{MOST_FENCE_BYTES, MOST_PAGES, Placement};
pub use root::TreeRoot;
pub use segment::{PagePair, Segment};
use snapshot::IndexTree;
pub use snapshot::{Ascent, Descent, Snapshot};

/// The segment index of one keyspace.
#[derive(Debug)]
pub struct Index {
    tree: ArcSwap<IndexTree>,
    retired: Mutex<Retired>,
    memory: Arc<Memory>,
    meter: Arc<Meter>,
}

/// Pages of nodes that are no longer in the index. The last checkpoint may refer to them, so they become free only
/// after the next one.
#[derive(Debug, Default)]
struct Retired {
    /// Each page, with a version of the tree that does not use it.
    pages: Vec<(u32, u64)>,
}

impl Retired {
    /// Takes the pages that a checkpoint of this version does not use.
    fn take(&mut self, version: u64) -> Vec<u32> {
        self.pages.extract_if(.., |(_, without)| *without <= version).map(|(page, _)| page).collect()
    }
}

impl Index {
    /// Creates an index of one segment, which holds all keys.
    pub fn create(memory: &Arc<Memory>, first: Segment) -> Result<Index> {
        let meter = Arc::default();
        let builder = Builder { memory, meter: &meter };
        let entries = [Entry { key: Vec::new(), item: Item::Segment(first) }];
        let pieces = Packing::new(PageKind::Index, &entries, &[], None).pieces(Fill::Evenly);
        let root = builder.node(PageKind::Index, &pieces[0], &entries)?;
        Ok(Index::with(IndexTree { version: 0, root, height: 1, segments: 1, nodes: 1 }, memory, meter))
    }

    fn with(tree: IndexTree, memory: &Arc<Memory>, meter: Arc<Meter>) -> Index {
        Index { tree: ArcSwap::from_pointee(tree), retired: Mutex::default(), memory: memory.clone(), meter }
    }

    /// The page pair of `key`, in the segment with the greatest lower fence that is not above `key`.
    pub fn lookup(&self, key: &[u8]) -> PagePair {
        self.tree.load().page_pair_of(key)
    }

    /// The version; every edit changes it.
    pub fn version(&self) -> u64 {
        self.tree.load().version
    }

    /// A snapshot of the current state, for several lookups.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { tree: self.tree.load_full() }
    }

    /// Does the part of an edit that can fail, against the current state. Edits are serialised: the caller holds a lock
    /// from here to [`install`](Self::install), but none that a shrinker takes, since this leases memory. Fails if
    /// memory is short, and with `Invalid` if the edit does not fit the index.
    pub fn prepare(&self, change: &IndexEdit) -> Result<Prepared> {
        change::prepare(self.snapshot(), change, &Builder { memory: &self.memory, meter: &self.meter })
    }

    /// Makes an edit visible atomically.
    ///
    /// # Panics
    /// If the index changed since the edit was prepared.
    pub fn install(&self, prepared: Prepared) {
        let mut retired = self.retired.lock();
        assert!(Arc::ptr_eq(&*self.tree.load(), &prepared.base), "the index changed between prepare and install");
        let left = prepared.replaced.iter().filter_map(|node| node.retire());
        retired.pages.extend(left.map(|page| (page, prepared.tree.version)));
        self.tree.store(prepared.tree);
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.tree.load().segments
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.tree.load().nodes
    }

    /// Levels of nodes, from 1.
    pub fn depth(&self) -> u8 {
        self.tree.load().height
    }

    /// Bytes of memory of all nodes, including those only in snapshots. Their pages are charged to the budget; the
    /// overhead beside the pages (about 5%) is not.
    pub fn bytes(&self) -> usize {
        self.meter.bytes()
    }
}
