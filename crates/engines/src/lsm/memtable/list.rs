//! The skip list: how a key is searched and a node linked (decision 12, invariants 5 and 6).

use std::cmp::Ordering as Order;

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::{
    arena::{Address, Arena},
    heads::Heads,
    node::Node,
};

/// Levels of links. With loom so few that all orders can be tried.
pub(super) const LEVELS: usize = if cfg!(feature = "loom") { 2 } else { 12 };

/// How many levels a node of this hash has: one in four goes a level higher.
pub(super) fn height(hash: u64) -> usize {
    (1 + hash.trailing_zeros() as usize / 2).min(LEVELS)
}

/// A link: the address of the next node, and the head of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link(u64);

impl Link {
    fn new(head: u32, to: Address) -> Link {
        Link(u64::from(head) << 32 | u64::from(to.bits()))
    }

    /// None at the end of a level.
    #[inline]
    fn to(self) -> Option<Address> {
        Some(Address::from_bits(self.0 as u32)).filter(|to| *to != Address::NONE)
    }

    #[inline]
    fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Where a key would be in a level: behind a node, or at the beginning, and before what its link leads to.
#[derive(Debug, Clone, Copy)]
struct Gap {
    before: Option<Address>,
    link: Link,
}

/// The gaps of a key that is not there, from the lowest level up.
#[derive(Debug)]
pub(super) struct Path([Gap; LEVELS]);

/// What a search for a key comes to.
#[derive(Debug)]
pub(super) enum Found {
    /// Its node.
    There(Address),
    /// Where it would be.
    Missing(Path),
}

/// The links between the nodes of an arena.
#[derive(Debug)]
pub(super) struct List {
    /// To the first node of each level.
    first: [AtomicU64; LEVELS],
    heads: Heads,
}

impl List {
    /// No nodes.
    pub(super) fn new(heads: Heads) -> List {
        List { first: std::array::from_fn(|_| AtomicU64::new(0)), heads }
    }

    /// Looks for a key.
    pub(super) fn search(&self, arena: &Arena, key: &[u8]) -> Found {
        let head = self.heads.of(key);
        let mut path = Path([Gap { before: None, link: Link(0) }; LEVELS]);
        let mut before = None;
        for level in (0..LEVELS).rev() {
            match self.gap(arena, level, before, head, key) {
                Ok(gap) => (before, path.0[level]) = (gap.before, gap),
                Err(gap) => return Found::There(gap.link.to().expect("it leads to the key")),
            }
        }
        Found::Missing(path)
    }

    /// The last node below a key, and the first that is not.
    pub(super) fn around(&self, arena: &Arena, key: &[u8]) -> (Option<Address>, Option<Address>) {
        let head = self.heads.of(key);
        let (mut before, mut behind) = (None, None);
        for level in (0..LEVELS).rev() {
            let (Ok(gap) | Err(gap)) = self.gap(arena, level, before, head, key);
            (before, behind) = (gap.before, gap.link.to());
        }
        (before, behind)
    }

    /// Goes along a level to where a key would be. An error if it is there, and its node behind the gap.
    #[inline]
    fn gap(&self, arena: &Arena, level: usize, from: Option<Address>, head: u32, key: &[u8]) -> Result<Gap, Gap> {
        let mut before = from;
        loop {
            let link = Link(self.link(arena, level, before).load(Ordering::Acquire));
            let gap = Gap { before, link };
            let Some(to) = link.to() else { return Ok(gap) };
            match link.head().cmp(&head).then_with(|| Node(arena.from(to)).compare(key)) {
                Order::Less => before = Some(to),
                Order::Equal => return Err(gap),
                Order::Greater => return Ok(gap),
            }
        }
    }

    #[inline]
    fn link<'a>(&'a self, arena: &'a Arena, level: usize, node: Option<Address>) -> &'a AtomicU64 {
        match node {
            Some(node) => Node(arena.from(node)).link(level),
            None => &self.first[level],
        }
    }

    /// Links a node that is filled, from below. Its key was not there, and nobody else inserts it.
    pub(super) fn insert(&self, arena: &Arena, path: &Path, node: Address, height: usize, key: &[u8]) {
        let head = self.heads.of(key);
        for (level, gap) in path.0[..height].iter().enumerate() {
            let mut gap = *gap;
            while !self.link_in(arena, level, gap, Link::new(head, node)) {
                gap = self.gap(arena, level, gap.before, head, key).expect("its stripe is held");
            }
        }
    }

    /// Links a node into a gap of a level. False if another came into it.
    fn link_in(&self, arena: &Arena, level: usize, gap: Gap, to: Link) -> bool {
        let node = to.to().expect("a node has an address");
        Node(arena.from(node)).link(level).store(gap.link.0, Ordering::Relaxed);
        let link = self.link(arena, level, gap.before);
        // Who comes to the node by this link sees all of its words.
        link.compare_exchange(gap.link.0, to.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The node behind one, or the first.
    pub(super) fn next(&self, arena: &Arena, node: Option<Address>) -> Option<Address> {
        Link(self.link(arena, 0, node).load(Ordering::Acquire)).to()
    }

    /// The last node.
    pub(super) fn last(&self, arena: &Arena) -> Option<Address> {
        let mut last = None;
        for level in (0..LEVELS).rev() {
            while let Some(to) = Link(self.link(arena, level, last).load(Ordering::Acquire)).to() {
                last = Some(to);
            }
        }
        last
    }
}
