//! Shortcuts: a hash table of nodes that were written before. A thread that writes or reads such a key again finds its
//! node without a search of the skip list (lsm.md, "Memtable"; lsm-protocol.md, invariant 5).
//!
//! Each slab begins with some buckets of shortcuts, so their number grows with that of the records. A new shortcut
//! replaces one in a full bucket. Small slabs have so few that their shortcuts are not used any more once there is a
//! large slab.

use ecotone_sys::primitive::{
    atomic::{AtomicU64, Ordering},
    unless_loom,
};

use crate::memtable::arena::{Address, Arena};

/// Shortcuts of a bucket, which is a cache line. With loom they are so few that all orders can be tried.
const WAYS: usize = unless_loom(8, 1);
/// Buckets of a large slab.
const BUCKETS: usize = unless_loom(64, 1);

/// The upper half of a hash, and the address of a node; zero if empty.
#[derive(Debug, Clone, Copy)]
struct Shortcut(u64);

impl Shortcut {
    fn new(hash: u64, node: Address) -> Shortcut {
        Shortcut(hash & !u64::from(u32::MAX) | u64::from(node.bits()))
    }

    #[inline]
    fn node(self, hash: u64) -> Option<Address> {
        Some(Address::from_bits(self.0 as u32)).filter(|node| (self.0 ^ hash) >> 32 == 0 && *node != Address::NONE)
    }
}

/// Finds a node for which `is_it` is true among the shortcuts of a hash.
#[inline]
pub(super) fn find(arena: &Arena, hash: u64, is_it: impl Fn(Address) -> bool) -> Option<Address> {
    // Acquire: a thread that reaches a node by a shortcut sees all of its words.
    let shortcuts = bucket(arena, hash)?.iter().map(|slot| Shortcut(slot.load(Ordering::Acquire)));
    shortcuts.filter_map(|shortcut| shortcut.node(hash)).find(|node| is_it(*node))
}

/// Stores a shortcut to a linked node: in the slot that has it already, in an empty one, or in the one that `turn`
/// selects.
pub(super) fn note(arena: &Arena, hash: u64, node: Address, turn: u64) {
    let Some(bucket) = bucket(arena, hash) else { return };
    let shortcut = Shortcut::new(hash, node).0;
    let is_for_it = |slot: &&AtomicU64| [0, shortcut].contains(&slot.load(Ordering::Relaxed));
    let slot = bucket.iter().find(is_for_it).unwrap_or(&bucket[turn as usize % bucket.len()]);
    // An equal slot is not written again: other threads may be reading the cache line.
    if slot.load(Ordering::Relaxed) != shortcut {
        slot.store(shortcut, Ordering::Release);
    }
}

/// The bucket of a hash, if there is a slab. Each slab that is added takes over some of the hashes of one earlier slab.
#[inline]
fn bucket(arena: &Arena, hash: u64) -> Option<&[AtomicU64; WAYS]> {
    let at = hash as usize >> 8;
    let slabs = arena.with_shortcuts();
    let slab = slabs.start + spread(at / BUCKETS, slabs.len())?;
    let (buckets, _) = arena.shortcuts(slab).as_chunks();
    Some(&buckets[at % buckets.len()])
}

/// One of `many` slabs, by linear hashing.
#[inline]
fn spread(hash: usize, many: usize) -> Option<usize> {
    let above = many.next_power_of_two();
    let place = hash & (above - 1);
    (many > 0).then_some(if place < many { place } else { place - above / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_more_takes_some_from_one_slab_alone() {
        assert_eq!(spread(7, 0), None);
        let all = |many| (0..4096).map(move |hash| spread(hash, many).unwrap());
        for many in 1..100 {
            let moved: Vec<_> = all(many).zip(all(many + 1)).filter(|(before, after)| before != after).collect();
            assert!(!moved.is_empty() && moved.iter().all(|place| *place == (moved[0].0, many)), "{many}");
        }
    }
}
