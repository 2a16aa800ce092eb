//! The memtable: a skip list over leased words, which takes writes until it is full (L1; decision 11, "Memtable";
//! decision 12, invariants 5 to 8).
//!
//! Writers of one key come one after the other, which is up to who calls; those of different keys, and readers, come as
//! they like. Memory is never taken back before all of it.

mod arena;
mod cursor;
mod heads;
mod list;
mod node;
mod overwrites;
mod shortcuts;
mod slabs;
#[cfg(test)]
mod tests;

use ecotone_substrate::{Seq, table::Answer};
use ecotone_sys::{
    primitive::atomic::{AtomicU64, Ordering},
    words::{WORD, Words},
};

pub(super) use self::arena::{ROOM, bytes, room_in};
pub(crate) use self::cursor::Cursor;
use self::{
    arena::{Address, Arena},
    heads::Heads,
    list::{Found, List, height},
    node::{Node, Record, node_words, record_words, room_for},
    overwrites::Overwrites,
};
use super::table::common;

/// Gives a slab of zeros, which was promised.
pub(crate) type Ready<'r> = dyn FnMut() -> Words + 'r;

/// Records by their keys, each as it is now.
#[derive(Debug)]
pub(crate) struct Memtable {
    arena: Arena,
    list: List,
    /// The smallest sequence of all records, or more than any.
    smallest: AtomicU64,
    overwrites: Overwrites,
    /// Deletes that were written.
    deletes: AtomicU64,
}

impl Memtable {
    /// An empty memtable for keys that mostly begin with `prefix`. It has no memory yet.
    pub(crate) fn new(prefix: &[u8]) -> Memtable {
        Memtable {
            arena: Arena::new(),
            list: List::new(Heads::behind(prefix)),
            smallest: AtomicU64::new(Seq::MAX),
            overwrites: Overwrites::default(),
            deletes: AtomicU64::new(0),
        }
    }

    /// The most words that a write takes. No value is a tombstone; the hash is that of the key.
    pub(crate) fn words(hash: u64, key: &[u8], value: Option<&[u8]>) -> usize {
        node_words(height(hash), key, room_for(value))
    }

    /// Writes a key. No value is a tombstone; the hash is that of the key. Nobody else writes the key meanwhile.
    pub(crate) fn apply(&self, hash: u64, key: &[u8], value: Option<&[u8]>, seq: Seq, ready: &mut Ready<'_>) {
        self.note(seq);
        self.count_delete(value);
        let (room, ready) = (room_for(value), &mut || {
            self.overwrites.end_slab();
            ready()
        });
        match self.search(hash, key) {
            Found::There(at) => {
                self.note_shortcut(hash, at);
                let node = Node(self.arena.from(at));
                if !self.replace(node, value, seq) {
                    let at = self.arena.allocate(record_words(room), ready);
                    Record(self.arena.from(at)).fill(value, seq);
                    node.set_record(at, room);
                }
                self.overwrites.count(false);
            }
            Found::Missing(path) => {
                let height = height(hash);
                let at = self.arena.allocate(node_words(height, key, room), ready);
                Node(self.arena.from(at)).fill(at, height, key, value, seq);
                self.list.insert(&self.arena, &path, at, height, key);
                self.overwrites.count(true);
                self.note_shortcut(hash, at);
            }
        }
    }

    /// Writes a key in place, if it has a shortcut, and its record room for the value. So it takes no search, which who
    /// then applies the write would make once more. Nobody else writes the key meanwhile.
    pub(crate) fn overwrite(&self, hash: u64, key: &[u8], value: Option<&[u8]>, seq: Seq) -> bool {
        let Some(at) = self.by_shortcut(hash, key) else { return false };
        self.note(seq);
        let is_done = self.replace(Node(self.arena.from(at)), value, seq);
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
        // Sequences stand still where nothing is logged.
        shortcuts::note(&self.arena, hash, node, self.overwrites.writes());
    }

    fn search(&self, hash: u64, key: &[u8]) -> Found {
        self.by_shortcut(hash, key).map_or_else(|| self.list.search(&self.arena, key), Found::There)
    }

    fn replace(&self, node: Node<'_>, value: Option<&[u8]>, seq: Seq) -> bool {
        let (at, room) = node.record();
        let fits = room_for(value) <= room;
        if fits {
            Record(self.arena.from(at)).replace(value, seq);
        }
        fits
    }

    /// What the record of a key of this hash says, with its sequence. The value is put into `value`.
    pub(crate) fn get(&self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Option<(Answer, Seq)> {
        match self.search(hash, key) {
            Found::There(at) => Some(self.record(Node(self.arena.from(at))).read(value)),
            Found::Missing(_) => None,
        }
    }

    /// A cursor before its first record.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// What all keys begin with that there are now.
    pub(crate) fn common_prefix(&self) -> Vec<u8> {
        let (mut first, last) = self.ends().unwrap_or_default();
        first.truncate(common(&first, &last));
        first
    }

    /// The first and the last key that there are now, if there are any.
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

    /// Records that were written to it, in place too.
    pub(crate) fn writes(&self) -> u64 {
        self.overwrites.writes()
    }

    /// Deletes that were written to it.
    pub(crate) fn deletes(&self) -> u64 {
        self.deletes.load(Ordering::Relaxed)
    }

    fn count_delete(&self, value: Option<&[u8]>) {
        if value.is_none() {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it takes few new keys any more.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.overwrites.prevail()
    }

    /// Bytes of what its records take.
    pub(crate) fn filled(&self) -> usize {
        self.arena.given_out() * WORD
    }

    /// Bytes of its slabs.
    pub(crate) fn bytes(&self) -> usize {
        arena::bytes(self.arena.words())
    }

    /// Words that its present slab has left.
    pub(crate) fn free(&self) -> usize {
        self.arena.free()
    }

    /// Before a record is linked or changed, so that who sees the record sees its sequence here.
    fn note(&self, seq: Seq) {
        if seq < self.smallest.load(Ordering::Relaxed) {
            self.smallest.fetch_min(seq, Ordering::AcqRel);
        }
    }

    fn record(&self, node: Node<'_>) -> Record<'_> {
        Record(self.arena.from(node.record().0))
    }
}
