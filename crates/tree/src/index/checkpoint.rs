//! The checkpoint of the index: writes the nodes that are not on disk yet.

use std::sync::Arc;

use ecotone_substrate::{
    Result,
    page::{PageAddress, seal},
};

use super::{Index, TreeRoot, node::Node, pack::write_page, snapshot::IndexTree};
use crate::page_allocator::{Hold, IoPurpose, PageAllocator};

/// The state of the index that a checkpoint writes.
#[derive(Debug)]
#[must_use = "a checkpoint is made by writing it"]
pub struct Checkpoint<'a> {
    tree: Arc<IndexTree>,
    space: &'a PageAllocator,
    hold: Hold<'a>,
}

impl Index {
    /// Fixes the state that the next checkpoint writes. Cheap and without I/O, so that it can run under a lock that
    /// also fixes the structure position.
    pub fn begin_checkpoint<'a>(&self, space: &'a PageAllocator) -> Checkpoint<'a> {
        let hold = space.hold();
        Checkpoint { tree: self.tree.load_full(), space, hold }
    }

    /// Writes the nodes that are not on disk yet into free pages, synced, and returns the root for the manifest.
    /// Readers and edits do not wait for it. Only one checkpoint may run at a time.
    ///
    /// Pages that this checkpoint no longer uses go to [`PageAllocator::free_after_checkpoint`]. `NoSpace` and a
    /// shortage of memory leave everything as it was; another failure poisons.
    pub fn write_checkpoint(&self, checkpoint: Checkpoint<'_>) -> Result<TreeRoot> {
        let Checkpoint { tree, space, hold } = checkpoint;
        let mut nodes = Vec::new();
        unwritten(&tree.root, &mut nodes);
        let writing = space.file().writing()?;
        let pages = space.allocate(nodes.len())?;
        drop(hold);
        if !nodes.is_empty() {
            self.assign(&nodes, &pages);
            writing
                .pages(IoPurpose::Index, &pages, |i, place, frame| write_node(&nodes[i], place, tree.version, frame))?;
        }
        space.free_after_checkpoint(self.retired.lock().take(tree.version));
        let page = tree.root.page_number().expect("all nodes were written");
        Ok(TreeRoot { page, height: tree.height, segments: tree.segments, nodes: tree.nodes, pages: space.total() })
    }

    /// Assigns pages to nodes. Nodes that the index has dropped since give them up at once.
    fn assign(&self, nodes: &[Arc<Node>], pages: &[u32]) {
        let mut retired = self.retired.lock();
        let version = self.tree.load().version;
        let left = nodes.iter().zip(pages).filter(|(node, page)| node.assign(**page));
        retired.pages.extend(left.map(|(_, page)| (*page, version)));
    }
}

/// The nodes of the subtree of `node` that have no page, children first. All nodes below a node with a page have pages.
fn unwritten(node: &Arc<Node>, nodes: &mut Vec<Arc<Node>>) {
    if node.page_number().is_none() {
        for child in node.children() {
            unwritten(child, nodes);
        }
        nodes.push(node.clone());
    }
}

/// Writes the page of a node as it goes to disk. An inner page names its children's pages, which are known only now.
fn write_node(node: &Node, place: PageAddress, version: u64, frame: &mut [u8]) {
    if node.children().is_empty() {
        frame.copy_from_slice(node.bytes_of_page());
        seal(frame, place, version);
    } else {
        let built = node.page();
        let entries = node.entries(built.lower());
        write_page(frame, place, version, node.kind(), (built.lower(), built.upper()), &entries);
    }
}
