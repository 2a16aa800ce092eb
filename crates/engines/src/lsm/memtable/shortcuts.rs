//! Shortcuts: where keys have their nodes that were written before, by the hash, so that who writes or reads such a key
//! again searches no list (decision 11, "Memtable"; decision 12, invariant 5).
//!
//! Each slab begins with some buckets of shortcuts, so there are more of them the more records there are. A full bucket
//! forgets one for each that comes. Small slabs have so few that they are not used any more when there is a large one.

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::arena::{Address, Arena};

/// Shortcuts of a bucket, which is a line of the processor's caches. With loom so few that all orders can be tried.
const WAYS: usize = if cfg!(feature = "loom") { 1 } else { 8 };
/// The part of a slab that shortcuts are: five for four records of 108 bytes.
const PART: usize = 16;
/// Buckets of a large slab.
const BUCKETS: usize = if cfg!(feature = "loom") { 1 } else { 64 };

/// Words that a slab of so many begins with.
pub(super) const fn words(slab: usize) -> usize {
    slab / PART
}

/// The upper half of a hash, and a node; zero where nothing is.
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

/// A node of which `is_it` says so, among those that were noted for the hash.
#[inline]
pub(super) fn find(arena: &Arena, hash: u64, is_it: impl Fn(Address) -> bool) -> Option<Address> {
    // Who comes to a node by a shortcut sees all of its words.
    let shortcuts = bucket(arena, hash)?.iter().map(|slot| Shortcut(slot.load(Ordering::Acquire)));
    shortcuts.filter_map(|shortcut| shortcut.node(hash)).find(|node| is_it(*node))
}

/// Notes a node that is linked, in its place, an empty one, or the one that `turn` comes to.
pub(super) fn note(arena: &Arena, hash: u64, node: Address, turn: u64) {
    let Some(bucket) = bucket(arena, hash) else { return };
    let shortcut = Shortcut::new(hash, node).0;
    let is_for_it = |slot: &&AtomicU64| [0, shortcut].contains(&slot.load(Ordering::Relaxed));
    let slot = bucket.iter().find(is_for_it).unwrap_or(&bucket[turn as usize % bucket.len()]);
    // Others may read the line.
    if slot.load(Ordering::Relaxed) != shortcut {
        slot.store(shortcut, Ordering::Release);
    }
}

/// Where shortcuts of a hash are, if there is a slab. With each slab that comes, some of those of one slab before it
/// have their place there.
#[inline]
fn bucket(arena: &Arena, hash: u64) -> Option<&[AtomicU64; WAYS]> {
    let at = hash as usize >> 8;
    let slabs = arena.with_shortcuts();
    let slab = slabs.start + spread(at / BUCKETS, slabs.len())?;
    let (buckets, _) = arena.shortcuts(slab).as_chunks();
    Some(&buckets[at % buckets.len()])
}

/// One of so many, by linear hashing.
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
