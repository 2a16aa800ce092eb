//! A snapshot of the index. Reading one takes no lock and no I/O, and edits never change it.

use std::sync::Arc;

use super::{
    node::Node,
    segment::{PagePair, Segment},
    segment_pages::SegmentPages,
};

/// A snapshot of the index. Cheap to take; keeps replaced nodes in memory while it lives.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) tree: Arc<IndexTree>,
}

/// A root with the sizes of the tree below it.
#[derive(Debug)]
pub(super) struct IndexTree {
    /// Increases by one with every edit.
    pub(super) version: u64,
    pub(super) root: Arc<Node>,
    /// Levels, from 1.
    pub(super) height: u8,
    pub(super) segments: u64,
    pub(super) nodes: u64,
}

/// A node with its key range.
#[derive(Debug, Clone)]
pub(super) struct NodeRange {
    pub(super) node: Arc<Node>,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
}

impl NodeRange {
    fn child(&self, position: usize) -> NodeRange {
        let lower = if position == 0 { Some(self.lower.clone()) } else { self.node.key(position) };
        let upper = self.node.key(position + 1).or_else(|| self.upper.clone());
        NodeRange { node: self.node.children()[position].clone(), lower: lower.expect("the position exists"), upper }
    }
}

impl IndexTree {
    /// The page pair of `key`, in the segment with the greatest lower fence that is not above `key`.
    pub(super) fn page_pair_of(&self, key: &[u8]) -> PagePair {
        let (leaf, position) = self.position(key);
        leaf.pair(position, key).expect("a leaf has entries")
    }

    /// The leaf with the entry that `key` belongs to, and the entry's position.
    fn position(&self, key: &[u8]) -> (&Arc<Node>, usize) {
        let leaf = self.leaf(key);
        if let Some(position) = leaf.floor(key) {
            return (leaf, position);
        }
        let leaf = self.leaf_below(leaf.page().lower());
        (leaf, leaf.page().len() - 1)
    }

    /// The leaf whose range contains `key`.
    pub(super) fn leaf(&self, key: &[u8]) -> &Arc<Node> {
        let mut node = &self.root;
        while !node.children().is_empty() {
            node = &node.children()[node.floor(key).unwrap_or(0)];
        }
        node
    }

    /// The leaf whose range contains the keys just below `key`, which is not the empty key.
    pub(super) fn leaf_below(&self, key: &[u8]) -> &Arc<Node> {
        let mut node = &self.root;
        while !node.children().is_empty() {
            node = &node.children()[node.below(key).unwrap_or(0)];
        }
        node
    }

    /// The node of a level (the root's is 0) whose range contains `key`.
    pub(super) fn locate(&self, level: u8, key: &[u8]) -> NodeRange {
        (0..level).fold(self.top(), |at, _| at.child(at.node.floor(key).unwrap_or(0)))
    }

    /// The node of a level whose range contains the keys just below `key`, which is not the empty key.
    pub(super) fn locate_below(&self, level: u8, key: &[u8]) -> NodeRange {
        (0..level).fold(self.top(), |at, _| at.child(at.node.below(key).unwrap_or(0)))
    }

    fn top(&self) -> NodeRange {
        NodeRange { node: self.root.clone(), lower: Vec::new(), upper: None }
    }
}

fn last_of(leaf: &Node) -> (Vec<u8>, Segment) {
    entry(leaf, leaf.page().len() - 1).expect("a leaf has entries")
}

fn entry(leaf: &Node, position: usize) -> Option<(Vec<u8>, Segment)> {
    Some((leaf.key(position)?, leaf.segment(position)?))
}

impl Snapshot {
    /// The page pair of `key`.
    pub fn lookup(&self, key: &[u8]) -> PagePair {
        self.tree.page_pair_of(key)
    }

    /// The segment with exactly this lower fence.
    pub fn get(&self, lower: &[u8]) -> Option<Segment> {
        let leaf = self.tree.leaf(lower);
        leaf.segment(leaf.page().search(lower).ok()?)
    }

    /// The entry that `key` belongs to: the greatest lower fence that is not above `key`.
    pub fn floor(&self, key: &[u8]) -> (Vec<u8>, Segment) {
        self.descend(key).next().expect("the first segment has the empty key")
    }

    /// The entry with the greatest lower fence below `key`: the left neighbour of a segment whose lower fence is `key`.
    pub fn floor_before(&self, key: &[u8]) -> Option<(Vec<u8>, Segment)> {
        if key.is_empty() {
            return None;
        }
        let leaf = self.tree.leaf_below(key);
        match leaf.below(key) {
            Some(position) => entry(leaf, position),
            None => Some(last_of(self.tree.leaf_below(leaf.page().lower()))),
        }
    }

    /// The entry with the smallest lower fence above `key`, where the segment of `key` ends.
    pub fn after(&self, key: &[u8]) -> Option<(Vec<u8>, Segment)> {
        let mut ascent = self.ascend(key);
        ascent.next();
        ascent.next()
    }

    /// The entries from the one that `key` belongs to, in ascending order.
    pub fn ascend(&self, key: &[u8]) -> Ascent {
        let (leaf, position) = self.position(key);
        Ascent { tree: self.tree.clone(), leaf, position }
    }

    /// The entries from the one that `key` belongs to, in descending order.
    pub fn descend(&self, key: &[u8]) -> Descent {
        let (leaf, position) = self.position(key);
        Descent { tree: self.tree.clone(), leaf, left: position + 1 }
    }

    fn position(&self, key: &[u8]) -> (Arc<Node>, usize) {
        let (leaf, position) = self.tree.position(key);
        (leaf.clone(), position)
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.tree.segments
    }
}

/// Entries of a snapshot in ascending order: lower fence and segment.
#[derive(Debug, Clone)]
pub struct Ascent {
    tree: Arc<IndexTree>,
    leaf: Arc<Node>,
    position: usize,
}

impl Ascent {
    /// Like [`next`](Iterator::next), with an iterator over the segment's pages.
    pub fn next_walk(&mut self) -> Option<(Vec<u8>, SegmentPages<'_>)> {
        let position = self.advance()?;
        Some((self.leaf.key(position)?, self.leaf.walk(position)?))
    }

    /// The position in the leaf of the next entry.
    fn advance(&mut self) -> Option<usize> {
        if self.position == self.leaf.page().len() {
            let next = self.tree.leaf(self.leaf.page().upper()?).clone();
            (self.leaf, self.position) = (next, 0);
        }
        self.position += 1;
        Some(self.position - 1)
    }
}

impl Iterator for Ascent {
    type Item = (Vec<u8>, Segment);

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.advance()?;
        entry(&self.leaf, position)
    }
}

/// Entries of a snapshot in descending order: lower fence and segment.
#[derive(Debug, Clone)]
pub struct Descent {
    tree: Arc<IndexTree>,
    leaf: Arc<Node>,
    /// Remaining entries of the leaf.
    left: usize,
}

impl Iterator for Descent {
    type Item = (Vec<u8>, Segment);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let lower = self.leaf.page().lower();
            let before = if lower.is_empty() { return None } else { self.tree.leaf_below(lower).clone() };
            self.left = before.page().len();
            self.leaf = before;
        }
        self.left -= 1;
        entry(&self.leaf, self.left)
    }
}
