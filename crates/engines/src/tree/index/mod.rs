//! The segment index: which segment holds which part of the key space.
//!
//! It maps the lower fence of every segment to the segment's pages. It is a B+-tree of 4 KiB pages whose nodes never
//! change once they are published: a change builds the nodes that differ beside the old ones and then switches the
//! root. Readers load the root and walk, without locks; the whole index is in memory. A checkpoint writes the nodes
//! that are not on disk yet into free space. The layout on disk is in `docs/format/tree-index.md`.

mod change;
mod checkpoint;
mod fences;
mod load;
mod node;
mod pack;
mod placement;
mod root;
mod segment;
mod snapshot;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use arc_swap::ArcSwap;
pub use change::{Attach, Change, Prepared};
pub use checkpoint::Checkpoint;
use ecotone_substrate::{Result, memory::Memory, page::PageKind};
use ecotone_sys::primitive::Mutex;
pub(crate) use fences::encoded_len as fence_len;
use node::{Entry, Item, Meter};
use pack::{Builder, Fill, Packing};
pub use placement::Placement;
pub use root::TreeRoot;
pub use segment::{Home, MOST_FENCE_BYTES, MOST_PAGES, Segment};
use snapshot::Tree;
pub use snapshot::{Ascent, Descent, Snapshot};

/// The segment index of one keyspace.
#[derive(Debug)]
pub struct Index {
    tree: ArcSwap<Tree>,
    retired: Mutex<Retired>,
    memory: Arc<Memory>,
    meter: Arc<Meter>,
}

/// Pages of nodes that the index no longer has. The last checkpoint may refer to them, so they are free only after
/// another one.
#[derive(Debug, Default)]
struct Retired {
    /// Page, and a version of the tree without it.
    pages: Vec<(u32, u64)>,
}

impl Retired {
    /// Takes the pages that a checkpoint of this version does without.
    fn take(&mut self, version: u64) -> Vec<u32> {
        self.pages.extract_if(.., |(_, without)| *without <= version).map(|(page, _)| page).collect()
    }
}

impl Index {
    /// An index of one segment, which holds all keys.
    pub fn create(memory: &Arc<Memory>, first: Segment) -> Result<Index> {
        let meter = Arc::default();
        let builder = Builder { memory, meter: &meter };
        let entries = [Entry { key: Vec::new(), item: Item::Segment(first) }];
        let pieces = Packing::new(PageKind::Index, &entries, &[], None).pieces(Fill::Evenly);
        let root = builder.node(PageKind::Index, &pieces[0], &entries)?;
        Ok(Index::with(Tree { version: 0, root, height: 1, segments: 1, nodes: 1 }, memory, meter))
    }

    fn with(tree: Tree, memory: &Arc<Memory>, meter: Arc<Meter>) -> Index {
        Index { tree: ArcSwap::from_pointee(tree), retired: Mutex::default(), memory: memory.clone(), meter }
    }

    /// The home of `key`: its base page in the segment with the greatest lower fence that is not above it.
    pub fn lookup(&self, key: &[u8]) -> Home {
        self.tree.load().home_of(key)
    }

    /// Another one after every change.
    pub fn version(&self) -> u64 {
        self.tree.load().version
    }

    /// The present state, for more than one look.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { tree: self.tree.load_full() }
    }

    /// Does all of a change that can fail, against the present state. Changes are made one at a time: the caller holds
    /// a lock from here to [`install`](Self::install), but none that a shrinker takes, since this leases memory. Fails
    /// for want of memory, and with `Invalid` if the change does not fit the index.
    pub fn prepare(&self, change: &Change) -> Result<Prepared> {
        change::prepare(self.snapshot(), change, &Builder { memory: &self.memory, meter: &self.meter })
    }

    /// Makes a change visible, all of it at once.
    ///
    /// # Panics
    /// If the index changed since the change was prepared.
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

    /// Bytes of memory of all nodes, also of those that only snapshots hold. Their pages are in the budget; what comes
    /// on top of the pages (about 5%) is not.
    pub fn bytes(&self) -> usize {
        self.meter.bytes()
    }
}
