//! The memtable: a skip list in leased memory. It takes writes until it is full and is flushed then (L1; lsm.md,
//! "Memtable"; lsm-protocol.md, invariants 5 to 8).
//!
//! Each key has one node, whose record is replaced by later writes, in place where the value fits. Hashed shortcuts
//! lead to nodes without a search. The caller serializes writers of one key. Writers of different keys and readers run
//! concurrently. Memory is freed only with the whole memtable.

mod arena;
pub(crate) mod batch;
mod cursor;
mod heads;
pub(crate) mod iterator;
mod node;
mod overwrites;
pub(crate) mod pool;
mod shortcuts;
mod skip_list;
pub(crate) mod slab_reserve;
mod slabs;
#[cfg(test)]
mod tests;

use ecotone_engine::superseded::SupersededReports;
use ecotone_substrate::{Seq, table::Answer};
use ecotone_sys::{
    primitive::atomic::{AtomicU64, Ordering},
    words::{WORD, Words},
};

pub(super) use crate::memtable::arena::{ROOM, bytes, room_in};
pub(crate) use crate::memtable::cursor::Cursor;
use crate::{
    memtable::{
        arena::{Address, Arena},
        heads::Heads,
        node::{Node, Record, node_words, record_words, room_for},
        overwrites::Overwrites,
        skip_list::{SearchResult, SkipList, height},
    },
    table::common_prefix_len,
};

/// Returns a zeroed slab whose memory was reserved before.
pub(crate) type Ready<'r> = dyn FnMut() -> Words + 'r;

/// The newest record of each key that was written.
#[derive(Debug)]
pub(crate) struct Memtable {
    arena: Arena,
    list: SkipList,
    /// The smallest sequence of all records, or `Seq::MAX` if there is none.
    smallest: AtomicU64,
    overwrites: Overwrites,
    /// Number of deletes that were written.
    deletes: AtomicU64,
}

impl Memtable {
    /// An empty memtable for keys that mostly begin with `prefix`. It has no memory yet.
    pub(crate) fn new(prefix: &[u8]) -> Memtable {
        Memtable {
            arena: Arena::new(),
            list: SkipList::new(Heads::behind(prefix)),
            smallest: AtomicU64::new(Seq::MAX),
            overwrites: Overwrites::default(),
            deletes: AtomicU64::new(0),
        }
    }

    /// The most words that a write allocates. A value of `None` is a tombstone; the hash is that of the key.
    pub(crate) fn words(hash: u64, key: &[u8], value: Option<&[u8]>) -> usize {
        node_words(height(hash), key, room_for(value))
    }

    /// Writes a key. A value of `None` is a tombstone; the hash is that of the key. No other thread writes the key
    /// meanwhile. A value that is replaced is reported before.
    pub(crate) fn apply(
        &self,
        hash: u64,
        key: &[u8],
        value: Option<&[u8]>,
        seq: Seq,
        ready: &mut Ready<'_>,
        reports: &SupersededReports,
    ) {
        self.note(seq);
        self.count_delete(value);
        let (room, ready) = (room_for(value), &mut || {
            self.overwrites.end_slab();
            ready()
        });
        match self.search(hash, key) {
            SearchResult::There(at) => {
                self.note_shortcut(hash, at);
                let node = Node(self.arena.from(at));
                if !self.replace(node, key, value, seq, reports) {
                    self.report(node, key, value, seq, reports);
                    let at = self.arena.allocate(record_words(room), ready);
                    Record(self.arena.from(at)).fill(value, seq);
                    node.set_record(at, room);
                }
                self.overwrites.count(false);
            }
            SearchResult::Missing(path) => {
                let height = height(hash);
                let at = self.arena.allocate(node_words(height, key, room), ready);
                Node(self.arena.from(at)).fill(at, height, key, value, seq);
                self.list.insert(&self.arena, &path, at, height, key);
                self.overwrites.count(true);
                self.note_shortcut(hash, at);
            }
        }
    }

    /// Writes a key in place, if it has a shortcut and its record has room for the value. Returns false otherwise. It
    /// does no search, which the caller's `apply` would repeat. No other thread writes the key meanwhile.
    pub(crate) fn overwrite(
        &self,
        hash: u64,
        key: &[u8],
        value: Option<&[u8]>,
        seq: Seq,
        reports: &SupersededReports,
    ) -> bool {
        let Some(at) = self.by_shortcut(hash, key) else { return false };
        self.note(seq);
        let is_done = self.replace(Node(self.arena.from(at)), key, value, seq, reports);
        if is_done {
            self.overwrites.count(false);
            self.count_delete(value);
        }
        is_done
    }

    #[inline]
    fn by_shortcut(&self, hash: u64, key: &[u8]) -> Option<Address> {
        shortcuts::find(&self.arena, hash, |node| Node(self.arena.from(node)).compare(key).is_eq())
    }

    fn note_shortcut(&self, hash: u64, node: Address) {
        // The number of writes, since sequences do not advance where nothing is logged.
        shortcuts::note(&self.arena, hash, node, self.overwrites.writes());
    }

    fn search(&self, hash: u64, key: &[u8]) -> SearchResult {
        self.by_shortcut(hash, key).map_or_else(|| self.list.search(&self.arena, key), SearchResult::There)
    }

    fn replace(&self, node: Node<'_>, key: &[u8], value: Option<&[u8]>, seq: Seq, reports: &SupersededReports) -> bool {
        let (at, room) = node.record();
        let fits = room_for(value) <= room;
        if fits {
            self.report(node, key, value, seq, reports);
            Record(self.arena.from(at)).replace(value, seq);
        }
        fits
    }

    /// Reports the value that a write is about to replace, unless the new one is equal. No other thread changes the
    /// record meanwhile.
    #[inline]
    fn report(&self, node: Node<'_>, key: &[u8], value: Option<&[u8]>, seq: Seq, reports: &SupersededReports) {
        if !reports.is_on() {
            return;
        }
        let mut old = Vec::new();
        if self.record(node).read(&mut old).0 == Answer::Value && value != Some(&old[..]) {
            reports.report(key, &old, seq);
        }
    }

    /// Reads the record of a key with this hash, and its sequence. The value is put into `value`.
    pub(crate) fn get(&self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Option<(Answer, Seq)> {
        match self.search(hash, key) {
            SearchResult::There(at) => Some(self.record(Node(self.arena.from(at))).read(value)),
            SearchResult::Missing(_) => None,
        }
    }

    /// The common prefix of all present keys.
    pub(crate) fn common_prefix(&self) -> Vec<u8> {
        let (mut first, last) = self.ends().unwrap_or_default();
        first.truncate(common_prefix_len(&first, &last));
        first
    }

    /// The first and the last present key, if there are any.
    pub(crate) fn ends(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let key = |node| {
            let mut key = Vec::new();
            Node(self.arena.from(node)).read_key(&mut key);
            key
        };
        Some((key(self.list.next(&self.arena, None)?), key(self.list.last(&self.arena)?)))
    }

    /// The smallest sequence that any of its records has or had.
    pub(crate) fn smallest(&self) -> Option<Seq> {
        Some(self.smallest.load(Ordering::Acquire)).filter(|seq| *seq != Seq::MAX)
    }

    /// Number of records that were written to it, in place too.
    pub(crate) fn writes(&self) -> u64 {
        self.overwrites.writes()
    }

    /// Number of deletes that were written to it.
    pub(crate) fn deletes(&self) -> u64 {
        self.deletes.load(Ordering::Relaxed)
    }

    fn count_delete(&self, value: Option<&[u8]>) {
        if value.is_none() {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether most writes overwrite keys that it has.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.overwrites.prevail()
    }

    /// Bytes that its records take.
    pub(crate) fn filled(&self) -> usize {
        self.arena.given_out() * WORD
    }

    /// Bytes of its slabs.
    pub(crate) fn bytes(&self) -> usize {
        arena::bytes(self.arena.words())
    }

    /// Words that are left in its current slab.
    pub(crate) fn free(&self) -> usize {
        self.arena.free()
    }

    /// Called before a record is linked or changed, so that a thread that sees the record sees its sequence here.
    fn note(&self, seq: Seq) {
        if seq < self.smallest.load(Ordering::Relaxed) {
            self.smallest.fetch_min(seq, Ordering::AcqRel);
        }
    }

    fn record(&self, node: Node<'_>) -> Record<'_> {
        Record(self.arena.from(node.record().0))
    }
}
