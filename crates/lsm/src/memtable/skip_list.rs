//! The skip list: search for a key, and lock-free insertion of a node (lsm-protocol.md, invariants 5 and 6). A link
//! holds the head of the next key beside its address, so most comparisons do not read the next node.

use std::cmp::Ordering as Order;

use ecotone_sys::primitive::{
    atomic::{AtomicU64, Ordering},
    unless_loom,
};

use crate::memtable::{
    arena::{Address, Arena},
    heads::Heads,
    node::Node,
};

/// Levels of links. With loom they are so few that all orders can be tried.
pub(super) const LEVELS: usize = unless_loom(12, 2);

/// The lowest levels, which are dense: each has every second node of the level below. These levels have most nodes, so
/// a search misses the processor's caches there. It passes one node in each dense level; it would pass three if one
/// node in four went higher.
const DENSE: usize = 5;

/// The number of levels of a node with this hash. One node in two goes a level higher within the dense levels, and one
/// in four above them.
pub(super) fn height(hash: u64) -> usize {
    let coins = hash.trailing_zeros() as usize;
    let height = if coins < DENSE { 1 + coins } else { 1 + DENSE + (coins - DENSE) / 2 };
    height.min(LEVELS)
}

/// A link: the address of the next node, and the head of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link(u64);

impl Link {
    fn new(head: u32, to: Address) -> Link {
        Link(u64::from(head) << 32 | u64::from(to.bits()))
    }

    /// The next node, or `None` at the end of a level.
    #[inline]
    fn to(self) -> Option<Address> {
        Some(Address::from_bits(self.0 as u32)).filter(|to| *to != Address::NONE)
    }

    #[inline]
    fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The position of a search in a level: on a node, or before the first.
#[derive(Debug, Clone, Copy)]
struct ListPosition<'a> {
    address: Option<Address>,
    node: Node<'a>,
}

/// The position of a missing key in a level: behind a node or at the beginning, and before the node that `link` leads
/// to.
#[derive(Debug, Clone, Copy)]
struct Gap {
    before: Option<Address>,
    link: Link,
}

/// The gaps of a missing key, from the lowest level up.
#[derive(Debug)]
pub(super) struct Splice([Gap; LEVELS]);

/// The result of a search for a key.
#[derive(Debug)]
pub(super) enum SearchResult {
    /// The node of the key.
    There(Address),
    /// Where the key would be.
    Missing(Splice),
}

/// The links between the nodes of an arena.
#[derive(Debug)]
pub(super) struct SkipList {
    /// The head node, which has no key and comes before all others.
    first: [AtomicU64; 1 + LEVELS],
    heads: Heads,
}

impl SkipList {
    /// An empty list.
    pub(super) fn new(heads: Heads) -> SkipList {
        SkipList { first: std::array::from_fn(|_| AtomicU64::new(0)), heads }
    }

    /// Looks for a key.
    pub(super) fn search(&self, arena: &Arena, key: &[u8]) -> SearchResult {
        let head = self.heads.of(key);
        let mut path = Splice([Gap { before: None, link: Link(0) }; LEVELS]);
        let mut place = self.start();
        for level in (0..LEVELS).rev() {
            let (before, link, order) = place.advance(arena, level, head, key);
            if order == Order::Equal {
                return SearchResult::There(link.to().expect("it leads to the key"));
            }
            place = before;
            path.0[level] = Gap { before: place.address, link };
        }
        SearchResult::Missing(path)
    }

    /// The last node below a key, and the first that is not below it.
    pub(super) fn around(&self, arena: &Arena, key: &[u8]) -> (Option<Address>, Option<Address>) {
        let head = self.heads.of(key);
        let (mut place, mut behind) = (self.start(), None);
        for level in (0..LEVELS).rev() {
            let link;
            (place, link, _) = place.advance(arena, level, head, key);
            behind = link.to();
        }
        (place.address, behind)
    }

    fn start(&self) -> ListPosition<'_> {
        ListPosition { address: None, node: Node(&self.first) }
    }

    fn place<'a>(&'a self, arena: &'a Arena, address: Option<Address>) -> ListPosition<'a> {
        address.map_or_else(|| self.start(), |to| ListPosition::on(arena, to))
    }

    /// Links a filled node, from the lowest level up. Its key was missing, and no other thread inserts it.
    pub(super) fn insert(&self, arena: &Arena, path: &Splice, node: Address, height: usize, key: &[u8]) {
        let head = self.heads.of(key);
        for (level, gap) in path.0[..height].iter().enumerate() {
            let mut gap = *gap;
            while !self.link_in(arena, level, gap, Link::new(head, node)) {
                let (place, link, order) = self.place(arena, gap.before).advance(arena, level, head, key);
                assert!(order != Order::Equal, "its stripe is held");
                gap = Gap { before: place.address, link };
            }
        }
    }

    /// Links a node into a gap of a level. Returns false if another node was linked there meanwhile.
    fn link_in(&self, arena: &Arena, level: usize, gap: Gap, to: Link) -> bool {
        let node = to.to().expect("a node has an address");
        Node(arena.from(node)).link(level).store(gap.link.0, Ordering::Relaxed);
        let link = self.place(arena, gap.before).node.link(level);
        // Release: a thread that reaches the node by this link sees all of its words.
        link.compare_exchange(gap.link.0, to.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The node behind `node`, or the first for `None`.
    pub(super) fn next(&self, arena: &Arena, node: Option<Address>) -> Option<Address> {
        self.place(arena, node).link(0).to()
    }

    /// The last node.
    pub(super) fn last(&self, arena: &Arena) -> Option<Address> {
        let mut last = self.start();
        for level in (0..LEVELS).rev() {
            while let Some(to) = last.link(level).to() {
                last = ListPosition::on(arena, to);
            }
        }
        last.address
    }
}

impl<'a> ListPosition<'a> {
    fn on(arena: &'a Arena, to: Address) -> ListPosition<'a> {
        ListPosition { address: Some(to), node: Node(arena.from(to)) }
    }

    #[inline]
    fn link(self, level: usize) -> Link {
        Link(self.node.link(level).load(Ordering::Acquire))
    }

    /// Advances along a level to the position of a key. Returns the position, the link behind it, and the order of the
    /// key against the node that the link leads to: never greater.
    #[inline]
    fn advance(self, arena: &'a Arena, level: usize, head: u32, key: &[u8]) -> (ListPosition<'a>, Link, Order) {
        let mut place = self;
        loop {
            let link = place.link(level);
            let Some(to) = link.to() else { return (place, link, Order::Less) };
            if head < link.head() {
                return (place, link, Order::Less);
            }
            if head == link.head() {
                let order = Node(arena.from(to)).compare(key).reverse();
                if order != Order::Greater {
                    return (place, link, order);
                }
            }
            place = ListPosition::on(arena, to);
        }
    }
}
