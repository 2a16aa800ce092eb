//! The order and the colours of stores, the same in every chart and table.
//!
//! The colours are Okabe and Ito's, which are distinguishable with any kind of colour vision.

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
/// The store that does nothing: it measures the harness and is no rival.
pub(crate) const HARNESS: &str = "null";

/// The position of a store in the order of the charts.
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
