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

/// Levels that every second node of the level below has. These have most nodes, so a search misses the processor's
/// caches there, and it goes along one node of each, where three are passed if one in four goes higher.
const DENSE: usize = 5;

/// How many levels a node of this hash has: one in two goes a level higher in the dense ones, and one in four above.
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

/// Where a search is in a level: on a node, or before the first.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    address: Option<Address>,
    node: Node<'a>,
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
    /// A node without a key before all others.
    first: [AtomicU64; 1 + LEVELS],
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
        let mut place = self.start();
        for level in (0..LEVELS).rev() {
            let (before, link, order) = place.advance(arena, level, head, key);
            if order == Order::Equal {
                return Found::There(link.to().expect("it leads to the key"));
            }
            place = before;
            path.0[level] = Gap { before: place.address, link };
        }
        Found::Missing(path)
    }

    /// The last node below a key, and the first that is not.
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

    fn start(&self) -> Place<'_> {
        Place { address: None, node: Node(&self.first) }
    }

    fn place<'a>(&'a self, arena: &'a Arena, address: Option<Address>) -> Place<'a> {
        address.map_or_else(|| self.start(), |to| Place::on(arena, to))
    }

    /// Links a node that is filled, from below. Its key was not there, and nobody else inserts it.
    pub(super) fn insert(&self, arena: &Arena, path: &Path, node: Address, height: usize, key: &[u8]) {
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

    /// Links a node into a gap of a level. False if another came into it.
    fn link_in(&self, arena: &Arena, level: usize, gap: Gap, to: Link) -> bool {
        let node = to.to().expect("a node has an address");
        Node(arena.from(node)).link(level).store(gap.link.0, Ordering::Relaxed);
        let link = self.place(arena, gap.before).node.link(level);
        // Who comes to the node by this link sees all of its words.
        link.compare_exchange(gap.link.0, to.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The node behind one, or the first.
    pub(super) fn next(&self, arena: &Arena, node: Option<Address>) -> Option<Address> {
        self.place(arena, node).link(0).to()
    }

    /// The last node.
    pub(super) fn last(&self, arena: &Arena) -> Option<Address> {
        let mut last = self.start();
        for level in (0..LEVELS).rev() {
            while let Some(to) = last.link(level).to() {
                last = Place::on(arena, to);
            }
        }
        last.address
    }
}

impl<'a> Place<'a> {
    fn on(arena: &'a Arena, to: Address) -> Place<'a> {
        Place { address: Some(to), node: Node(arena.from(to)) }
    }

    #[inline]
    fn link(self, level: usize) -> Link {
        Link(self.node.link(level).load(Ordering::Acquire))
    }

    /// Goes along a level to where a key would be. The link behind that, and how the key compares with what it leads
    /// to: never greater.
    #[inline]
    fn advance(self, arena: &'a Arena, level: usize, head: u32, key: &[u8]) -> (Place<'a>, Link, Order) {
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
            place = Place::on(arena, to);
        }
    }
}
