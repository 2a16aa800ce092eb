//! The directory of leaves: finds the leaf of a key.

use std::{
    borrow::Borrow,
    cmp::Ordering as Order,
    collections::BTreeSet,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

use ecotone_sys::primitive::{
    Mutex, RwLock,
    atomic::{AtomicU64, Ordering},
};

use super::{
    entry::{Fence, Key},
    leaf::Leaf,
};

/// A leaf in the directory. It holds the keys from its lower bound up to that of the next leaf.
#[derive(Debug)]
pub(super) struct Node {
    lower: Fence,
    pub(super) leaf: Mutex<Leaf>,
    /// Number of splits and joins of the leaf.
    changes: AtomicU64,
}

/// A node by its lower bound.
#[derive(Debug)]
struct ByLower {
    /// The first bytes of the bound: comparing the bound itself would wait for memory.
    head: u128,
    node: Arc<Node>,
}

/// The search key of a lookup.
struct Sought<'k> {
    head: u128,
    key: Key<'k>,
}

/// The fields by which nodes are compared.
trait Bounded {
    /// The first bytes of the key.
    fn head(&self) -> u128;
    fn key(&self) -> Key<'_>;
}

impl Bounded for ByLower {
    fn head(&self) -> u128 {
        self.head
    }

    fn key(&self) -> Key<'_> {
        self.node.lower.key()
    }
}

impl Bounded for Sought<'_> {
    fn head(&self) -> u128 {
        self.head
    }

    fn key(&self) -> Key<'_> {
        self.key
    }
}

impl Ord for dyn Bounded + '_ {
    fn cmp(&self, other: &Self) -> Order {
        self.head().cmp(&other.head()).then_with(|| self.key().cmp(&other.key()))
    }
}

impl PartialOrd for dyn Bounded + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Bounded + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Bounded + '_ {}

impl<'k> Borrow<dyn Bounded + 'k> for ByLower {
    fn borrow(&self) -> &(dyn Bounded + 'k) {
        self
    }
}

impl Ord for ByLower {
    fn cmp(&self, other: &Self) -> Order {
        (self as &dyn Bounded).cmp(other as &dyn Bounded)
    }
}

impl PartialOrd for ByLower {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByLower {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByLower {}

impl ByLower {
    fn new(node: Node) -> ByLower {
        ByLower { head: node.lower.key().beginning(), node: Arc::new(node) }
    }
}

impl<'k> Sought<'k> {
    fn new(key: Key<'k>) -> Sought<'k> {
        Sought { head: key.beginning(), key }
    }
}

/// All leaves. Its lock is taken inside the locks of leaves, and no lock is taken inside it.
#[derive(Debug, Default)]
pub(super) struct Directory {
    nodes: RwLock<BTreeSet<ByLower>>,
}

/// A node that was found, and its change counter at that time.
pub(super) struct Found {
    pub(super) node: Arc<Node>,
    changes: u64,
}

impl Found {
    /// Whether the node still is the leaf of the key; valid under the leaf's lock.
    pub(super) fn holds(&self) -> bool {
        self.node.changes.load(Ordering::Relaxed) == self.changes
    }
}

impl Directory {
    /// The leaf of a key. `None` if there are no leaves.
    pub(super) fn find(&self, key: Key<'_>) -> Option<Found> {
        let nodes = self.nodes.read();
        let sought = Sought::new(key);
        let ByLower { node, .. } =
            nodes.range::<dyn Bounded, _>((Unbounded, Included(&sought as &dyn Bounded))).next_back()?;
        Some(Found { node: node.clone(), changes: node.changes.load(Ordering::Relaxed) })
    }

    /// The last leaf with keys below `key`, or the last of all.
    pub(super) fn find_below(&self, key: Option<Key<'_>>) -> Option<Found> {
        let nodes = self.nodes.read();
        let ByLower { node, .. } = match key.map(Sought::new) {
            Some(sought) => {
                nodes.range::<dyn Bounded, _>((Unbounded, Excluded(&sought as &dyn Bounded))).next_back()?
            }
            None => nodes.last()?,
        };
        Some(Found { node: node.clone(), changes: node.changes.load(Ordering::Relaxed) })
    }

    /// The leaf after a locked one.
    pub(super) fn next(&self, node: &Node) -> Option<Arc<Node>> {
        let nodes = self.nodes.read();
        let sought = Sought::new(node.lower.key());
        let next = nodes.range::<dyn Bounded, _>((Excluded(&sought as &dyn Bounded), Unbounded)).next();
        next.map(|next| next.node.clone())
    }

    /// Creates the first leaf, if there is none.
    pub(super) fn begin(&self, leaf: impl FnOnce() -> Leaf) {
        let mut nodes = self.nodes.write();
        if nodes.is_empty() {
            nodes.insert(ByLower::new(Node::new(Fence::first(), leaf())));
        }
    }

    /// Inserts the upper part of a locked leaf as a new leaf with this lower bound.
    pub(super) fn split(&self, node: &Node, lower: Fence, upper: Leaf) {
        let mut nodes = self.nodes.write();
        assert!(nodes.insert(ByLower::new(Node::new(lower, upper))), "a bound within a leaf");
        node.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a locked leaf; the leaf before it, locked too, takes over its keys.
    pub(super) fn remove(&self, node: &Node) {
        let mut nodes = self.nodes.write();
        assert!(nodes.remove::<dyn Bounded>(&Sought::new(node.lower.key())), "a leaf goes once");
        node.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of leaves.
    pub(super) fn len(&self) -> usize {
        self.nodes.read().len()
    }
}

impl Node {
    fn new(lower: Fence, leaf: Leaf) -> Node {
        Node { lower, leaf: Mutex::new(leaf), changes: AtomicU64::new(0) }
    }

    /// The lower bound.
    pub(super) fn lower(&self) -> &Fence {
        &self.lower
    }
}
