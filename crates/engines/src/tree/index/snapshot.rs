//! One state of the index. Reading it takes no lock and no I/O, and changes never touch it.

use std::sync::Arc;

use super::{
    node::Node,
    segment::{Home, Segment},
    walk::Walk,
};

/// One state of the index. Cheap to take, costs memory for what later changes replace.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) tree: Arc<Tree>,
}

/// A root with what is known about the nodes below it.
#[derive(Debug)]
pub(super) struct Tree {
    /// Rises by one with every change.
    pub(super) version: u64,
    pub(super) root: Arc<Node>,
    /// Levels, from 1.
    pub(super) height: u8,
    pub(super) segments: u64,
    pub(super) nodes: u64,
}

/// A node with its place in the key space.
#[derive(Debug, Clone)]
pub(super) struct Located {
    pub(super) node: Arc<Node>,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
}

impl Located {
    fn child(&self, position: usize) -> Located {
        let lower = if position == 0 { Some(self.lower.clone()) } else { self.node.key(position) };
        let upper = self.node.key(position + 1).or_else(|| self.upper.clone());
        Located { node: self.node.children()[position].clone(), lower: lower.expect("the position exists"), upper }
    }
}

impl Tree {
    /// The home of `key`, in the segment with the greatest lower fence that is not above it.
    pub(super) fn home_of(&self, key: &[u8]) -> Home {
        let (leaf, position) = self.position(key);
        leaf.home(position, key).expect("a leaf has entries")
    }

    /// The leaf with the entry that `key` belongs to, and its position there.
    fn position(&self, key: &[u8]) -> (&Arc<Node>, usize) {
        let leaf = self.leaf(key);
        if let Some(position) = leaf.floor(key) {
            return (leaf, position);
        }
        let leaf = self.leaf_below(leaf.page().lower());
        (leaf, leaf.page().len() - 1)
    }

    /// The leaf that covers `key`.
    pub(super) fn leaf(&self, key: &[u8]) -> &Arc<Node> {
        let mut node = &self.root;
        while !node.children().is_empty() {
            node = &node.children()[node.floor(key).unwrap_or(0)];
        }
        node
    }

    /// The leaf that covers what lies just below `key`, which is not the empty key.
    pub(super) fn leaf_below(&self, key: &[u8]) -> &Arc<Node> {
        let mut node = &self.root;
        while !node.children().is_empty() {
            node = &node.children()[node.below(key).unwrap_or(0)];
        }
        node
    }

    /// The node of a level (the root's is 0) that covers `key`.
    pub(super) fn locate(&self, level: u8, key: &[u8]) -> Located {
        (0..level).fold(self.top(), |at, _| at.child(at.node.floor(key).unwrap_or(0)))
    }

    /// The node of a level that covers what lies just below `key`, which is not the empty key.
    pub(super) fn locate_below(&self, level: u8, key: &[u8]) -> Located {
        (0..level).fold(self.top(), |at, _| at.child(at.node.below(key).unwrap_or(0)))
    }

    fn top(&self) -> Located {
        Located { node: self.root.clone(), lower: Vec::new(), upper: None }
    }
}

fn last_of(leaf: &Node) -> (Vec<u8>, Segment) {
    entry(leaf, leaf.page().len() - 1).expect("a leaf has entries")
}

fn entry(leaf: &Node, position: usize) -> Option<(Vec<u8>, Segment)> {
    Some((leaf.key(position)?, leaf.segment(position)?))
}

impl Snapshot {
    /// The home of `key`.
    pub fn lookup(&self, key: &[u8]) -> Home {
        self.tree.home_of(key)
    }

    /// The segment with exactly this lower fence.
    pub fn get(&self, lower: &[u8]) -> Option<Segment> {
        let leaf = self.tree.leaf(lower);
        leaf.segment(leaf.page().search(lower).ok()?)
    }

    /// The entry that `key` belongs to: greatest lower fence that is not above it.
    pub fn floor(&self, key: &[u8]) -> (Vec<u8>, Segment) {
        self.descend(key).next().expect("the first segment has the empty key")
    }

    /// The entry with the greatest lower fence below `key`: the neighbour to the left of the segment with the lower
    /// fence `key`.
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

    /// The entry with the smallest lower fence above `key`: where the segment that `key` belongs to ends.
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
    tree: Arc<Tree>,
    leaf: Arc<Node>,
    position: usize,
}

impl Ascent {
    /// The same as [`next`](Iterator::next), with the segment's pages to be gone through.
    pub fn next_walk(&mut self) -> Option<(Vec<u8>, Walk<'_>)> {
        let position = self.advance()?;
        Some((self.leaf.key(position)?, self.leaf.walk(position)?))
    }

    /// The position in the leaf of the entry to give.
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
    tree: Arc<Tree>,
    leaf: Arc<Node>,
    /// Entries of the leaf that are still to come.
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
