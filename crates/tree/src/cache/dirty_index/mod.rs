//! The dirty index: all records that are not in their pages, in key order, with the sequence since which they are dirty
//! (mechanism T4; `docs/design/dirty-index.md`).
//!
//! The index knows nothing of pages. A record has an entry from before it is dirty until after it is clean, both under
//! the lock of its [`leaf`]; the [`directory`] finds the leaf; blocks for leaf splits are reserved by admission
//! ([`reservation`]).

mod cells;
mod directory;
mod entry;
mod leaf;
mod reservation;
#[cfg(test)]
mod tests;

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use ecotone_engine::remaining_range::Direction;
use ecotone_substrate::{Seq, memory::Memory};
use ecotone_sys::chunk::Size;

pub(super) use self::{cells::Cells, entry::Key};
use self::{
    directory::{Directory, Node},
    entry::Fence,
    leaf::{Leaf, LeafPosition, MAX_ENTRIES, UNRESERVED_ENTRIES},
    reservation::LeafReservation,
};
use super::handle::Address;

/// Two leaves with at most this many entries together are joined.
const JOINED: usize = 320;

/// The update of the entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryUpdate {
    /// Leaves the entry as it is, or missing.
    Nothing,
    /// The record has another address.
    Moved(Address),
    /// The record is dirty since this sequence.
    Dirty(Address, Seq),
}

/// The index.
#[derive(Debug)]
pub(super) struct DirtyIndex {
    directory: Directory,
    room: LeafReservation,
    /// Sequences of a window, as a power of two.
    window_bits: u32,
}

/// A range of keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'k> {
    pub(super) from: Key<'k>,
    /// The end, exclusive; `None` for no end.
    pub(super) to: Option<Key<'k>>,
}

impl<'k> Keys<'k> {
    /// The keys of a keyspace from `from` up to `to`, or to its last key.
    pub(super) fn of(keyspace: u16, from: &'k [u8], to: Option<&'k [u8]>) -> Keys<'k> {
        let to = to.map(|bytes| Key { keyspace, bytes });
        let end = || keyspace.checked_add(1).map(|keyspace| Key { keyspace, bytes: &[] });
        Keys { from: Key { keyspace, bytes: from }, to: to.or_else(end) }
    }
}

impl DirtyIndex {
    /// Creates an empty index with windows of 2^`window_bits` sequences. An entry more than 256 windows from the others
    /// is treated as older than it is.
    pub(super) fn new(memory: &Arc<Memory>, window_bits: u32) -> DirtyIndex {
        DirtyIndex { directory: Directory::default(), room: LeafReservation::new(memory), window_bits }
    }

    /// Admits a write, which may insert an entry. `spare` makes another holder return a block to the budget when the
    /// budget is empty; false if it cannot.
    pub(super) fn admit(&self, spare: &dyn Fn() -> bool) -> bool {
        self.room.admit(spare)
    }

    /// Ends an admission.
    pub(super) fn leave(&self) {
        self.room.leave();
    }

    /// Calls `act` with the address in the entry of a key, if any, and updates the entry as it returns, under the lock
    /// of the leaf. The caller was admitted if it inserts an entry.
    pub(super) fn change(&self, key: Key<'_>, cells: &impl Cells, act: impl FnOnce(Option<Address>) -> EntryUpdate) {
        let mut act = Some(act);
        loop {
            let Some(found) = self.directory.find(key) else {
                // There may be nothing to change.
                self.directory.begin(|| Leaf::new(self.room.take()));
                continue;
            };
            let mut leaf = found.node.leaf.lock();
            if found.holds() {
                let act = act.take().expect("a key has one leaf");
                return self.change_in(&found.node, &mut leaf, key, cells, act);
            }
        }
    }

    fn change_in(
        &self,
        node: &Node,
        leaf: &mut Leaf,
        key: Key<'_>,
        cells: &impl Cells,
        act: impl FnOnce(Option<Address>) -> EntryUpdate,
    ) {
        let place = leaf.search(key, cells);
        let address = match place {
            LeafPosition::There(at) => Some(leaf.address(at)),
            LeafPosition::Missing(_) => None,
        };
        match (act(address), place) {
            (EntryUpdate::Nothing, _) => {}
            (EntryUpdate::Moved(address), LeafPosition::There(at)) => leaf.move_to(at, address),
            (EntryUpdate::Moved(_), LeafPosition::Missing(_)) => unreachable!("what moves has an entry"),
            (EntryUpdate::Dirty(address, seq), LeafPosition::There(at)) => {
                leaf.renew(at, address, seq >> self.window_bits);
            }
            (EntryUpdate::Dirty(address, seq), LeafPosition::Missing(at)) => {
                self.insert(node, leaf, at, (key, address, seq >> self.window_bits), cells);
            }
        }
    }

    fn insert(
        &self,
        node: &Node,
        leaf: &mut Leaf,
        at: usize,
        (key, address, window): (Key<'_>, Address, u64),
        cells: &impl Cells,
    ) {
        let before = leaf.crowded();
        if leaf.len() < MAX_ENTRIES {
            leaf.insert(at, key, address, window, cells);
            return self.room.recount(before, leaf.crowded());
        }
        // For ascending or descending keys, the leaf that is left behind stays nearly full.
        let middle = match at {
            0 => leaf.len() - UNRESERVED_ENTRIES,
            at if at == leaf.len() => UNRESERVED_ENTRIES,
            _ => leaf.len() / 2,
        };
        let mut upper = Leaf::new(self.room.take());
        leaf.split_off(middle, &mut upper, cells);
        if at <= middle {
            leaf.insert(at, key, address, window, cells);
        } else {
            upper.insert(at - middle, key, address, window, cells);
        }
        self.room.recount(before, leaf.crowded() + upper.crowded());
        let fence = cells.with_key(leaf.address(leaf.len() - 1), |last| last.to_owned());
        let fence = cells.with_key(upper.address(0), |first| first.apart(fence.key()));
        self.directory.split(node, fence, upper);
    }

    /// Visits the leaves with these keys in ascending order, each under its lock, with the positions of the keys in it,
    /// until `visit` returns a result.
    fn ascend<T>(
        &self,
        keys: Keys<'_>,
        cells: &impl Cells,
        mut visit: impl FnMut(&mut Leaf, Range<usize>) -> ControlFlow<T>,
    ) -> Option<T> {
        let mut from = keys.from.to_owned();
        loop {
            let found = self.directory.find(from.key())?;
            let mut leaf = found.node.leaf.lock();
            if !found.holds() {
                continue;
            }
            let next = self.directory.next(&found.node).map(|next| next.lower().clone());
            let is_last = next.as_ref().is_none_or(|next| keys.to.is_some_and(|to| to <= next.key()));
            let first = if from.key() <= found.node.lower().key() { 0 } else { leaf.search(from.key(), cells).at() };
            let end = keys.to.filter(|_| is_last).map_or(leaf.len(), |to| leaf.search(to, cells).at());
            let before = leaf.crowded();
            let flow = visit(&mut leaf, first..end.max(first));
            self.room.recount(before, leaf.crowded());
            self.join(&found.node, &mut leaf, cells);
            match (flow, next) {
                (ControlFlow::Break(answer), _) => return Some(answer),
                (ControlFlow::Continue(()), Some(next)) if !is_last => from = next,
                _ => return None,
            }
        }
    }

    /// The same in descending order.
    fn descend<T>(
        &self,
        keys: Keys<'_>,
        cells: &impl Cells,
        mut visit: impl FnMut(&Leaf, Range<usize>) -> ControlFlow<T>,
    ) -> Option<T> {
        let mut below = keys.to.map(Key::to_owned);
        loop {
            let found = self.directory.find_below(below.as_ref().map(Fence::key))?;
            let leaf = found.node.leaf.lock();
            if !found.holds() {
                continue;
            }
            let (lower, is_last) = (found.node.lower(), found.node.lower().key() <= keys.from);
            let first = if is_last { leaf.search(keys.from, cells).at() } else { 0 };
            let end = below.as_ref().map_or(leaf.len(), |below| leaf.search(below.key(), cells).at());
            match visit(&leaf, first..end.max(first)) {
                ControlFlow::Break(answer) => return Some(answer),
                ControlFlow::Continue(()) if is_last => return None,
                ControlFlow::Continue(()) => below = Some(lower.clone()),
            }
        }
    }

    /// Joins the next leaf to this locked one, if both have few entries.
    fn join(&self, node: &Node, leaf: &mut Leaf, cells: &impl Cells) {
        if leaf.len() > JOINED / 2 {
            return;
        }
        let Some(next) = self.directory.next(node) else { return };
        let mut other = next.leaf.lock();
        if leaf.len() + other.len() <= JOINED {
            leaf.append(&mut other, cells);
            self.directory.remove(&next);
        }
    }

    /// Visits records with entries in the given key order, until `look` returns a result.
    pub(super) fn look<T>(
        &self,
        keys: Keys<'_>,
        direction: Direction,
        cells: &impl Cells,
        mut look: impl FnMut(Address) -> ControlFlow<T>,
    ) -> Option<T> {
        let flow = |stopped: Option<T>| stopped.map_or(ControlFlow::Continue(()), ControlFlow::Break);
        let mut stop = |address| match look(address) {
            ControlFlow::Break(answer) => Some(answer),
            ControlFlow::Continue(()) => None,
        };
        match direction {
            Direction::Up => {
                self.ascend(keys, cells, |leaf, mut places| flow(places.find_map(|place| stop(leaf.address(place)))))
            }
            Direction::Down => {
                self.descend(keys, cells, |leaf, places| flow(places.rev().find_map(|place| stop(leaf.address(place)))))
            }
        }
    }

    /// Removes the entries for which `stays` is false.
    pub(super) fn retain(&self, keys: Keys<'_>, cells: &impl Cells, mut stays: impl FnMut(Address) -> bool) {
        self.ascend(keys, cells, |leaf, places| {
            leaf.retain(places, &mut stays);
            ControlFlow::<()>::Continue(())
        });
        self.room.trim();
    }

    /// The first key whose record is dirty since a sequence below this one, or shortly above.
    pub(super) fn next(&self, keys: Keys<'_>, below: Seq, cells: &impl Cells) -> Option<Vec<u8>> {
        let last = below.checked_sub(1)? >> self.window_bits;
        self.ascend(keys, cells, |leaf, mut places| {
            let found = leaf.oldest().filter(|oldest| *oldest <= last);
            let found = found.and_then(|_| places.find(|place| leaf.window(*place) <= last));
            match found {
                Some(place) => ControlFlow::Break(cells.with_key(leaf.address(place), |key| key.bytes.to_vec())),
                None => ControlFlow::Continue(()),
            }
        })
    }

    /// A lower bound of the sequences since which these records are dirty, if any is; only records that `counts`
    /// accepts, if given. A write whose application ended before the call is seen.
    pub(super) fn first(
        &self,
        keys: Keys<'_>,
        cells: &impl Cells,
        counts: Option<&dyn Fn(Address) -> bool>,
    ) -> Option<Seq> {
        let mut oldest: Option<u64> = None;
        self.ascend(keys, cells, |leaf, places| {
            let of_leaf = if places.len() == leaf.len() && counts.is_none() {
                leaf.oldest()
            } else {
                let counted = places.filter(|place| counts.is_none_or(|counts| counts(leaf.address(*place))));
                counted.map(|place| leaf.window(place)).min()
            };
            oldest = oldest.into_iter().chain(of_leaf).min();
            ControlFlow::<()>::Continue(())
        });
        oldest.map(|window| window << self.window_bits)
    }

    /// Number of records with entries; stops at `most`.
    pub(super) fn count(&self, keys: Keys<'_>, cells: &impl Cells, most: usize) -> usize {
        let mut count = 0;
        self.ascend(keys, cells, |_, places| {
            count += places.len();
            if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        count
    }

    /// The entries in leaves that hold no other keys, and the number of these leaves.
    pub(super) fn fill(&self, keys: Keys<'_>, cells: &impl Cells) -> (usize, usize) {
        let (mut entries, mut leaves) = (0, 0);
        self.ascend(keys, cells, |leaf, places| {
            if places.len() == leaf.len() {
                entries += places.len();
                leaves += 1;
            }
            ControlFlow::<()>::Continue(())
        });
        (entries, leaves)
    }

    /// Bytes leased.
    pub(super) fn bytes(&self) -> usize {
        self.directory.len() * Size::Frame.bytes() + self.room.bytes()
    }
}
