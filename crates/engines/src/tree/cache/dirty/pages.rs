//! The chains of one part of the map, by keyspace, page and state.

use std::{collections::BTreeMap, ops::Range};

use ecotone_substrate::{Seq, bug};
use ecotone_sys::chunk::Block;

use super::{
    super::{handle::Address, table::Table},
    chunks::{Chunks, Place},
    pool::{NONE, Pool},
};

/// What a chain is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum State {
    /// Writes are chained here.
    Current = 1,
    /// A write-out has taken it.
    Writing = 2,
    /// Its records go to other pages' chains.
    Leaving = 3,
}

impl State {
    pub(super) const ALL: [State; 3] = [State::Current, State::Writing, State::Leaving];
}

/// Bytes of a node, and where its fields are: link of the hash chain, page, keyspace, state (0 if free), last chunk, first
/// sequence.
const NODE: usize = 24;
const LINK: usize = 0;
const PAGE: usize = 4;
const KEYSPACE: usize = 8;
const STATE: usize = 10;
const LAST: usize = 12;
const FIRST: usize = 16;
/// Nodes a bucket at which the table grows, in tenths.
const LOAD: usize = 15;

/// What may lack memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Table,
    Nodes,
    Chunks,
}

/// One part of the map.
#[derive(Debug, Default)]
pub(super) struct Pages {
    table: Table,
    nodes: Pool<NODE>,
    pub(super) chunks: Chunks,
    /// Raised by whatever could make somebody who copied the addresses of a chain miss a record.
    pub(super) changes: u64,
    /// By keyspace: addresses in its chains.
    counts: Vec<usize>,
    /// Those who look at all chains of all parts now.
    looking: usize,
    /// By keyspace: the smallest first sequence of what came here from another chain while they do.
    passed: BTreeMap<u16, Seq>,
}

/// What tells a chain from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageKey {
    pub(super) keyspace: u16,
    pub(super) page: u32,
}

impl PageKey {
    pub(super) fn hash(self) -> u64 {
        let mixed = (u64::from(self.keyspace) << 32 | u64::from(self.page)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 32
    }
}

impl Pages {
    /// Which part needs a block next, so that `need` pushes cannot fail.
    pub(super) fn wants(&self, need: usize) -> Option<Part> {
        if self.table.is_empty() {
            Some(Part::Table)
        } else if self.nodes.vacant() < need {
            Some(Part::Nodes)
        } else {
            (self.chunks.pool.vacant() < need).then_some(Part::Chunks)
        }
    }

    pub(super) fn add(&mut self, part: Part, block: Block) {
        match part {
            Part::Table => self.table.add(block),
            Part::Nodes => self.nodes.add(block),
            Part::Chunks => self.chunks.add(block),
        }
    }

    /// Gives memory back that was needed for more chains than the `need` ones to come, once there are none.
    pub(super) fn trim(&mut self, need: usize) {
        if self.nodes.used() == 0 {
            self.nodes.trim(need);
            self.chunks.pool.trim(need);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.nodes.bytes() + self.chunks.pool.bytes()
    }

    fn key(&self, node: u32) -> PageKey {
        PageKey { keyspace: self.half(node, KEYSPACE), page: self.nodes.word(node, PAGE) }
    }

    fn half(&self, node: u32, at: usize) -> u16 {
        let bytes = self.nodes.node(node);
        u16::from_le_bytes([bytes[at], bytes[at + 1]])
    }

    fn set_half(&mut self, node: u32, at: usize, half: u16) {
        self.nodes.node_mut(node)[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }

    fn is(&self, node: u32, state: State) -> bool {
        self.half(node, STATE) == state as u16
    }

    fn first(&self, node: u32) -> Seq {
        Seq::from_le_bytes(self.nodes.node(node)[FIRST..].try_into().expect("eight bytes"))
    }

    fn set_first(&mut self, node: u32, seq: Seq) {
        self.nodes.node_mut(node)[FIRST..].copy_from_slice(&seq.to_le_bytes());
    }

    fn find(&self, key: PageKey, state: State) -> Option<u32> {
        let mut node = self.table.get(self.table.bucket(key.hash() as u32));
        while node != NONE {
            if self.is(node, state) && self.key(node) == key {
                return Some(node);
            }
            node = self.nodes.word(node, LINK);
        }
        None
    }

    fn hook(&mut self, node: u32) {
        let bucket = self.table.bucket(self.key(node).hash() as u32);
        let next = self.table.get(bucket);
        self.nodes.set_word(node, LINK, next);
        self.table.set(bucket, node);
    }

    fn unhook(&mut self, node: u32) {
        let bucket = self.table.bucket(self.key(node).hash() as u32);
        let next = self.nodes.word(node, LINK);
        let mut at = self.table.get(bucket);
        if at == node {
            return self.table.set(bucket, next);
        }
        while self.nodes.word(at, LINK) != node {
            at = self.nodes.word(at, LINK);
        }
        self.nodes.set_word(at, LINK, next);
    }

    /// Makes the table longer by a bucket if its chains are long and it can be had for nothing.
    pub(super) fn grow(&mut self, lease: impl FnOnce() -> Option<Block>) {
        if !self.table.is_loaded(self.nodes.used(), LOAD) {
            return;
        }
        if self.table.wants_block() {
            let Some(block) = lease() else { return };
            self.table.add(block);
        }
        let split = self.table.grow();
        let mut node = self.table.get(split);
        self.table.set(split, NONE);
        while node != NONE {
            let next = self.nodes.word(node, LINK);
            self.hook(node);
            node = next;
        }
    }

    /// The present chain of a page, made if there is none.
    fn current(&mut self, key: PageKey, seq: Seq) -> u32 {
        if let Some(node) = self.find(key, State::Current) {
            return node;
        }
        let node = self.nodes.take();
        self.nodes.set_word(node, PAGE, key.page);
        self.set_half(node, KEYSPACE, key.keyspace);
        self.set_half(node, STATE, State::Current as u16);
        self.nodes.set_word(node, LAST, NONE);
        self.set_first(node, seq);
        self.hook(node);
        node
    }

    /// Chains a record to its page.
    pub(super) fn push(&mut self, key: PageKey, address: Address, seq: Seq) -> Place {
        let node = self.current(key, seq);
        self.set_first(node, self.first(node).min(seq));
        let (place, last) = self.chunks.push(self.nodes.word(node, LAST), address);
        self.nodes.set_word(node, LAST, last);
        let keyspace = usize::from(key.keyspace);
        if self.counts.len() <= keyspace {
            self.counts.resize(keyspace + 1, 0);
        }
        self.counts[keyspace] += 1;
        place
    }

    /// Addresses in the chains of a keyspace.
    pub(super) fn count(&self, keyspace: u16) -> usize {
        self.counts.get(usize::from(keyspace)).copied().unwrap_or(0)
    }

    /// Changes the state of a chain; gives its first sequence.
    ///
    /// # Panics
    /// If the page has a chain in the new state: its owner was to be the only one.
    pub(super) fn turn(&mut self, key: PageKey, from: State, to: State) -> Option<Seq> {
        let node = self.find(key, from)?;
        assert!(self.find(key, to).is_none(), "page {} of keyspace {} is already {to:?}", key.page, key.keyspace);
        self.set_half(node, STATE, to as u16);
        Some(self.first(node))
    }

    /// Joins the writing chain of a page to the present one.
    pub(super) fn restore(&mut self, key: PageKey) {
        let Some(writing) = self.find(key, State::Writing) else { return };
        let Some(current) = self.find(key, State::Current) else {
            return self.set_half(writing, STATE, State::Current as u16);
        };
        self.prepend(self.nodes.word(writing, LAST), current);
        self.inherit(current, self.first(writing));
        self.unhook(writing);
        self.nodes.give(writing);
    }

    /// A chain takes over records of another one that began at `first`.
    fn inherit(&mut self, node: u32, first: Seq) {
        self.set_first(node, self.first(node).min(first));
        self.note_passing(self.key(node).keyspace, first);
    }

    /// Tells whoever looks at all chains of something that came here, since it may leave a place not yet looked at.
    pub(super) fn note_passing(&mut self, keyspace: u16, first: Seq) {
        if self.looking > 0 {
            self.passed.entry(keyspace).and_modify(|least| *least = first.min(*least)).or_insert(first);
        }
    }

    /// Somebody begins to look at all chains of all parts.
    pub(super) fn begin_look(&mut self) {
        self.looking += 1;
    }

    /// Ends that; gives the smallest first sequence of what came here meanwhile.
    pub(super) fn end_look(&mut self, keyspace: u16) -> Option<Seq> {
        let passed = self.passed.get(&keyspace).copied();
        self.looking -= 1;
        if self.looking == 0 {
            self.passed.clear();
        }
        passed
    }

    fn prepend(&mut self, front: u32, node: u32) {
        let back = self.nodes.word(node, LAST);
        let joined = if back == NONE { front } else { self.chunks.join(front, back) };
        self.nodes.set_word(node, LAST, joined);
    }

    /// Gives what the writing chain of a page has behind the chunk `at` back to the present chain. False if that needs a node and
    /// no more than
    /// `kept` are vacant.
    pub(super) fn give_back(&mut self, key: PageKey, at: u32, kept: usize) -> bool {
        let Some(writing) = self.find(key, State::Writing) else { return true };
        let last = self.nodes.word(writing, LAST);
        if at == last {
            return true;
        }
        if self.find(key, State::Current).is_none() && self.nodes.vacant() <= kept {
            return false;
        }
        let current = self.current(key, Seq::MAX);
        self.inherit(current, self.first(writing));
        let rest = self.chunks.cut(last, at);
        self.nodes.set_word(writing, LAST, at);
        self.prepend(rest, current);
        true
    }

    /// The chunks of a chain.
    pub(super) fn chunks_of(&self, key: PageKey, state: State) -> impl Iterator<Item = u32> {
        self.chunks.chain(self.last(key, state))
    }

    /// The chunk after `before` in a chain, or the first.
    pub(super) fn chunk_after(&self, key: PageKey, state: State, before: Option<u32>) -> Option<u32> {
        self.chunks.after(self.last(key, state), before)
    }

    fn last(&self, key: PageKey, state: State) -> u32 {
        self.find(key, state).map_or(NONE, |node| self.nodes.word(node, LAST))
    }

    /// Frees the first chunk of a chain, and the chain with its last one.
    pub(super) fn drop_first(&mut self, key: PageKey, state: State) {
        let Some(node) = self.find(key, state) else { return };
        let (last, gone) = self.chunks.drop_first(self.nodes.word(node, LAST));
        self.counts[usize::from(key.keyspace)] -= gone;
        self.nodes.set_word(node, LAST, last);
        if last == NONE {
            self.drop_node(node);
        }
    }

    /// Frees a chain.
    pub(super) fn drop_chain(&mut self, key: PageKey, state: State) {
        if let Some(node) = self.find(key, state) {
            self.drop_node(node);
        }
    }

    fn drop_node(&mut self, node: u32) {
        let gone = self.chunks.drop_chain(self.nodes.word(node, LAST));
        let keyspace = usize::from(self.key(node).keyspace);
        self.counts[keyspace] -= gone;
        self.unhook(node);
        self.nodes.give(node);
    }

    /// Frees all chains of a keyspace, but for those that are being written: whoever goes through one of these would go on
    /// in what takes its place.
    pub(super) fn forget(&mut self, keyspace: u16) {
        for node in 0..self.nodes.bound() {
            let is_its = self.half(node, STATE) != 0 && self.half(node, KEYSPACE) == keyspace;
            if is_its && (!self.is(node, State::Writing) || bug!(DropWhileWritten)) {
                self.drop_node(node);
            }
        }
    }

    /// Numbers of nodes are below this.
    pub(super) fn bound(&self) -> u32 {
        self.nodes.bound()
    }

    /// Page and first sequence of every chain of a keyspace in one of the states, among these nodes.
    pub(super) fn chains(&self, numbers: Range<u32>, keyspace: u16, states: &[State]) -> impl Iterator<Item = (u32, Seq)> {
        let wanted =
            move |node: &u32| self.half(*node, KEYSPACE) == keyspace && states.iter().any(|state| self.is(*node, *state));
        numbers.filter(wanted).map(|node| (self.nodes.word(node, PAGE), self.first(node)))
    }
}
