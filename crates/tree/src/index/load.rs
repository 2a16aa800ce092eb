//! Loads a checkpointed index level by level, and validates everything.

use std::sync::Arc;

use ecotone_substrate::{
    Result,
    codec::Reader,
    memory::{Component, Memory},
    page::{Page, PageKind, RecordKind},
    storage::Block,
};

use super::{
    Index, Segment, TreeRoot,
    node::{Meter, Node},
    pack::stored_fences,
    snapshot::IndexTree,
};
use crate::page_allocator::{IoPurpose, PageAllocator, PageFile};

/// A node that is not in memory yet; its page is known.
#[derive(Debug)]
struct Expected {
    page: u32,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// The nodes of one level, left to right.
struct Level {
    nodes: Vec<(u32, Block)>,
    /// The number of children of each node.
    children: Vec<usize>,
}

impl Index {
    /// Loads the index from its checkpoint and marks its pages, and those of all segments, as used. Many reads are in
    /// flight. Any inconsistency is corruption; the work is bounded by the length of the file, since no page may be
    /// used twice.
    pub fn open(memory: &Arc<Memory>, root: &TreeRoot, space: &PageAllocator) -> Result<Index> {
        let file = space.file();
        if root.pages > space.total() {
            return Err(file.corruption(space.total(), "the file is shorter than at its last checkpoint"));
        }
        let mut load = Load { file, space, segments: 0, nodes: 0 };
        let mut expected = vec![Expected { page: root.page, lower: Vec::new(), upper: None }];
        let mut levels = Vec::new();
        for below in (0..root.height).rev() {
            let (level, next) = load.level(&expected, below == 0)?;
            levels.push(level);
            expected = next;
        }
        if (load.segments, load.nodes) != (root.segments, root.nodes) {
            return Err(file.corruption(root.page, "the index has another size than its root says"));
        }
        let meter = Arc::default();
        let TreeRoot { height, segments, nodes, .. } = *root;
        Ok(Index::with(
            IndexTree { version: 0, root: assemble(levels, &meter), height, segments, nodes },
            memory,
            meter,
        ))
    }
}

/// Builds nodes from the pages, from the leaves up.
fn assemble(levels: Vec<Level>, meter: &Arc<Meter>) -> Arc<Node> {
    let mut below = Vec::new().into_iter();
    for level in levels.into_iter().rev() {
        let counted = level.nodes.into_iter().zip(level.children);
        let node =
            |((page, block), children)| Node::new(block, below.by_ref().take(children).collect(), Some(page), meter);
        below = counted.map(node).collect::<Vec<_>>().into_iter();
    }
    below.next().expect("the first level is the root")
}

struct Load<'a> {
    file: &'a PageFile,
    space: &'a PageAllocator,
    segments: u64,
    nodes: u64,
}

impl Load<'_> {
    /// Reads and verifies the nodes of one level, and returns the expected nodes of the next one.
    fn level(&mut self, expected: &[Expected], leaves: bool) -> Result<(Level, Vec<Expected>)> {
        let pages: Vec<u32> = expected.iter().map(|node| node.page).collect();
        for &page in &pages {
            self.space.mark_used(page)?;
        }
        let blocks = self.file.read_pages(&pages, Component::PageIndex, IoPurpose::Index)?;
        let (mut children, mut next) = (Vec::new(), Vec::new());
        for (node, block) in expected.iter().zip(&blocks) {
            let before = next.len();
            self.node(node, block, leaves, &mut next)?;
            children.push(next.len() - before);
        }
        self.nodes += pages.len() as u64;
        Ok((Level { nodes: pages.into_iter().zip(blocks).collect(), children }, next))
    }

    /// Verifies one node and appends its children.
    fn node(&mut self, expected: &Expected, block: &Block, leaf: bool, next: &mut Vec<Expected>) -> Result<()> {
        let damaged = |what| Err(self.file.corruption(expected.page, what));
        let place = self.file.place(expected.page);
        let page = Page::parse(block, place).and_then(|page| page.check().map(|()| page));
        let page = page.map_err(|e| e.at(self.file.id(), expected.page))?;
        let kind = if leaf { PageKind::Index } else { PageKind::IndexInner };
        if page.kind() != kind {
            return damaged("a page of the index has another kind than its level");
        }
        if (page.lower(), page.upper()) != stored_fences(kind, &expected.lower, expected.upper.as_deref()) {
            return damaged("a page of the index has other fences than its parent says");
        }
        if page.is_empty() || page.iter().any(|entry| entry.kind != RecordKind::Value) {
            return damaged("a page of the index has no entries, or deleted ones");
        }
        if leaf { self.leaf(expected, &page) } else { self.inner(expected, &page, next) }
    }

    fn leaf(&mut self, expected: &Expected, page: &Page<'_>) -> Result<()> {
        if expected.lower.is_empty() && page.search(&[]).is_err() {
            return Err(self.file.corruption(expected.page, "the first segment does not begin at the empty key"));
        }
        for entry in page.iter() {
            let mut reader = Reader::new(entry.value);
            let segment = Segment::decode(&mut reader).and_then(|segment| reader.finish().map(|()| segment));
            for page in segment.map_err(|e| self.file.corruption(expected.page, e.what))?.all_pages() {
                self.space.mark_used(page)?;
            }
            self.segments += 1;
        }
        Ok(())
    }

    fn inner(&self, expected: &Expected, page: &Page<'_>, next: &mut Vec<Expected>) -> Result<()> {
        let damaged = |what| self.file.corruption(expected.page, what);
        if page.search(page.lower()) != Ok(0)
            || (expected.lower.is_empty() && expected.upper.is_none() && page.len() < 2)
        {
            return Err(damaged("a page of the index does not cover its range"));
        }
        let mut key = Vec::new();
        for position in 0..page.len() {
            let value = page.entry(position).and_then(|entry| entry.value.try_into().ok());
            let child =
                u32::from_le_bytes(value.ok_or_else(|| damaged("the page number of a node has not four bytes"))?);
            let lower = if position == 0 { expected.lower.clone() } else { key.clone() };
            let upper = if page.key_into(position + 1, &mut key) { Some(key.clone()) } else { expected.upper.clone() };
            if upper.as_ref().is_some_and(|upper| *upper <= lower) {
                return Err(damaged("the keys of a page of the index are outside of its range"));
            }
            next.push(Expected { page: child, lower, upper });
        }
        Ok(())
    }
}
