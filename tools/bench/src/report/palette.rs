//! The order and the colours of stores, the same in every chart and table.
//!
//! The colours are Okabe and Ito's, which people with any kind of colour vision can tell apart.

/// Known stores in the order of every chart, ours first, each with its colour's class in the style sheet.
const STORES: [(&str, &str); 11] = [
    ("tree", "vermilion"),
    ("hash", "yellow"),
    ("lsm", "yellow"),
    ("adaptive", "yellow"),
    ("rocksdb", "blue"),
    ("lmdb", "green"),
    ("redb", "purple"),
    ("fjall", "orange"),
    ("sled", "sky"),
    ("bf-tree", "ink"),
    (HARNESS, "grey"),
];
/// How many of them are ours.
const OURS: usize = 4;
/// The store that does nothing: the cost of the harness, and no rival.
pub(crate) const HARNESS: &str = "null";

/// The place of a store among others.
pub(crate) fn rank(store: &str) -> usize {
    STORES.iter().position(|(name, _)| *name == store).unwrap_or(STORES.len())
}

/// Whether a store is an engine of Ecotone.
pub(crate) fn is_ours(store: &str) -> bool {
    rank(store) < OURS
}

/// The class of a store's colour.
pub(crate) fn class(store: &str) -> &'static str {
    STORES.get(rank(store)).map_or("yellow", |(_, class)| class)
}
