//! Writes the nodes that are not on disk yet.

use std::sync::Arc;

use ecotone_substrate::{
    Result,
    page::{Place, seal},
};

use super::{Index, TreeRoot, node::Node, pack::write_page, snapshot::Tree};
use crate::tree::space::{Cause, Hold, Space};

/// The state of the index that a checkpoint will have.
#[derive(Debug)]
#[must_use = "a checkpoint is made by writing it"]
pub struct Checkpoint<'a> {
    tree: Arc<Tree>,
    space: &'a Space,
    hold: Hold<'a>,
}

impl Index {
    /// Fixes the state that the next checkpoint will have. Cheap and without I/O, so that it can be done under a lock
    /// that also fixes the structure position.
    pub fn begin_checkpoint<'a>(&self, space: &'a Space) -> Checkpoint<'a> {
        let hold = space.hold();
        Checkpoint { tree: self.tree.load_full(), space, hold }
    }

    /// Writes what is not on disk yet into free pages, synced, and gives the root for the manifest. Neither readers nor
    /// changes wait for it. Only one checkpoint may be under way at a time.
    ///
    /// The pages of nodes that this checkpoint does without go to [`Space::free_after_checkpoint`]. `NoSpace` and want
    /// of memory leave everything as it was; another failure poisons.
    pub fn write_checkpoint(&self, checkpoint: Checkpoint<'_>) -> Result<TreeRoot> {
        let Checkpoint { tree, space, hold } = checkpoint;
        let mut nodes = Vec::new();
        unwritten(&tree.root, &mut nodes);
        let writing = space.file().writing()?;
        let pages = space.allocate(nodes.len())?;
        drop(hold);
        if !nodes.is_empty() {
            self.assign(&nodes, &pages);
            writing.pages(Cause::Index, &pages, |i, place, frame| write_node(&nodes[i], place, tree.version, frame))?;
        }
        space.free_after_checkpoint(self.retired.lock().take(tree.version));
        let page = tree.root.page_number().expect("all nodes were written");
        Ok(TreeRoot { page, height: tree.height, segments: tree.segments, nodes: tree.nodes, pages: space.total() })
    }

    /// Gives nodes their pages. Those that the index has lost since leave them at once.
    fn assign(&self, nodes: &[Arc<Node>], pages: &[u32]) {
        let mut retired = self.retired.lock();
        let version = self.tree.load().version;
        let left = nodes.iter().zip(pages).filter(|(node, page)| node.assign(**page));
        retired.pages.extend(left.map(|(_, page)| (*page, version)));
    }
}

/// The nodes below and including `node` that have no page, those below first. A node with a page has only such nodes
/// below it.
fn unwritten(node: &Arc<Node>, nodes: &mut Vec<Arc<Node>>) {
    if node.page_number().is_none() {
        for child in node.children() {
            unwritten(child, nodes);
        }
        nodes.push(node.clone());
    }
}

/// Makes the page of a node as it goes to disk. An inner page names the pages below, which are known only now.
fn write_node(node: &Node, place: Place, version: u64, frame: &mut [u8]) {
    if node.children().is_empty() {
        frame.copy_from_slice(node.bytes_of_page());
        seal(frame, place, version);
    } else {
        let built = node.page();
        let entries = node.entries(built.lower());
        write_page(frame, place, version, node.kind(), (built.lower(), built.upper()), &entries);
    }
}
