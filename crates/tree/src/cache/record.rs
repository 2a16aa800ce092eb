//! The layout of one record in its cell (decision 3 has the table).

use super::handle::Link;

/// Bytes before the key.
pub(super) const HEADER: usize = 10;
const NEXT: usize = 0;
const META: usize = 4;
const KEYSPACE: usize = 8;

/// The highest priority.
pub(super) const MAX_PRIORITY: u8 = 7;

/// The eviction rank of a record: its priority, and whether it is on probation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachePriority(u32);

impl CachePriority {
    /// The rank of a record whose key is new to the cache.
    pub(super) const NEWCOMER: CachePriority = CachePriority(PROBATION);
    /// The rank of a record whose key was missed shortly before.
    pub(super) const KNOWN: CachePriority = CachePriority(1 << PRIORITY.trailing_zeros());
}

/// The header word of a record: 11 bits of key length (in a reserved cell, its bytes), 11 of value length, 3 of
/// priority, then the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta(u32);

const LENGTH: u32 = (1 << 11) - 1;
const PRIORITY: u32 = 7 << 22;
const LIVE: u32 = 1 << 25;
const DIRTY: u32 = 1 << 26;
const WRITING: u32 = 1 << 27;
const TOMBSTONE: u32 = 1 << 28;
const RESERVED: u32 = 1 << 29;
const UNLOGGED: u32 = 1 << 30;
const PROBATION: u32 = 1 << 31;
/// In a live record: the version in its page was reported as superseded (superseded.md, invariant 4).
const PAGE_REPORTED: u32 = RESERVED;

impl Meta {
    /// No record.
    pub(super) const NONE: Meta = Meta(0);

    /// A cell reserved for a record of `bytes`.
    pub(super) fn reserved_for(bytes: usize) -> Meta {
        Meta(RESERVED | bytes as u32)
    }

    /// A record that was read from its page.
    pub(super) fn of_read(key: &[u8], value: &[u8], rank: CachePriority) -> Meta {
        let lengths = key.len() as u32 | (value.len() as u32) << 11;
        Meta(lengths | rank.0 | LIVE)
    }

    /// A record that was written; no value makes it a tombstone.
    pub(super) fn of_written(key: &[u8], value: Option<&[u8]>, rank: CachePriority, logged: bool) -> Meta {
        let kind = if value.is_none() { DIRTY | TOMBSTONE } else { DIRTY };
        let log = if logged { 0 } else { UNLOGGED };
        Meta(Meta::of_read(key, value.unwrap_or_default(), rank).0 | kind | log)
    }

    /// Whether the write is in the log.
    pub(super) fn logged(self) -> bool {
        self.0 & UNLOGGED == 0
    }

    /// The eviction rank.
    pub(super) fn rank(self) -> CachePriority {
        CachePriority(self.0 & (PRIORITY | PROBATION))
    }

    /// Not accessed since the record came, as far as the clock knows, nor shortly before.
    pub(super) fn on_probation(self) -> bool {
        self.0 & PROBATION != 0
    }

    /// Accessed since the record came, or shortly before.
    pub(super) fn is_hot(self) -> bool {
        !self.on_probation() || self.priority() > 0
    }

    /// Ends a probation in which the record was accessed: it becomes protected at priority 0.
    pub(super) fn as_protected(self) -> Meta {
        Meta(self.0 & !(PROBATION | PRIORITY))
    }

    pub(super) fn priority(self) -> u8 {
        ((self.0 & PRIORITY) >> 22) as u8
    }

    pub(super) fn with_priority(self, priority: u8) -> Meta {
        Meta(self.0 & !PRIORITY | u32::from(priority) << 22)
    }

    /// Raises the priority by one, up to the highest.
    pub(super) fn promoted(self) -> Meta {
        self.with_priority((self.priority() + 1).min(MAX_PRIORITY))
    }

    /// Content that is not in its page yet and that no write-out has taken.
    pub(super) fn as_dirty(self) -> Meta {
        Meta(self.0 & !WRITING | DIRTY)
    }

    /// Content that a write-out has taken.
    pub(super) fn as_writing(self) -> Meta {
        Meta(self.0 & !DIRTY | WRITING)
    }

    /// Content that is in its page.
    pub(super) fn as_clean(self) -> Meta {
        Meta(self.0 & !(DIRTY | WRITING | PAGE_REPORTED))
    }

    /// Content that replaces other content of the key. If a write-out has taken the old content, both marks are set
    /// until it ends.
    pub(super) fn over(self, before: Meta) -> Meta {
        Meta(self.0 | before.0 & (WRITING | PAGE_REPORTED))
    }

    /// Content that was written during a write-out which has ended. What is in the page now was reported then.
    pub(super) fn as_rewritten(self) -> Meta {
        Meta(self.0 & !WRITING | PAGE_REPORTED)
    }

    /// Whether the version in the page was reported already.
    pub(super) fn page_reported(self) -> bool {
        self.0 & (LIVE | PAGE_REPORTED) == LIVE | PAGE_REPORTED
    }

    #[cfg(test)]
    pub(super) fn live(self) -> bool {
        self.0 & LIVE != 0
    }

    pub(super) fn dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub(super) fn writing(self) -> bool {
        self.0 & WRITING != 0
    }

    /// Whether the record may be dropped.
    pub(super) fn is_clean(self) -> bool {
        self.0 & (LIVE | DIRTY | WRITING) == LIVE
    }

    /// Dirty or writing: it has an entry in the index and may not be dropped.
    pub(super) fn unwritten(self) -> bool {
        self.0 & (DIRTY | WRITING) != 0
    }

    pub(super) fn tombstone(self) -> bool {
        self.0 & TOMBSTONE != 0
    }

    pub(super) fn reserved(self) -> bool {
        self.0 & (RESERVED | LIVE) == RESERVED
    }

    /// Bytes of key and value together.
    pub(super) fn bytes(self) -> usize {
        self.key_len() + self.value_len()
    }

    /// Bytes of the cell in its slab.
    pub(super) fn cell(self) -> usize {
        let bytes = if self.reserved() { self.key_len() } else { HEADER + self.bytes() };
        bytes.next_multiple_of(2)
    }

    fn key_len(self) -> usize {
        (self.0 & LENGTH) as usize
    }

    fn value_len(self) -> usize {
        (self.0 >> 11 & LENGTH) as usize
    }
}

fn word(cell: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(cell[at..at + 4].try_into().expect("four bytes"))
}

fn set_word(cell: &mut [u8], at: usize, word: u32) {
    cell[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// The next record in the hash chain.
#[inline]
pub(super) fn next(cell: &[u8]) -> Link {
    Link(word(cell, NEXT))
}

pub(super) fn set_next(cell: &mut [u8], next: Link) {
    set_word(cell, NEXT, next.0);
}

#[inline]
pub(super) fn meta(cell: &[u8]) -> Meta {
    Meta(word(cell, META))
}

pub(super) fn set_meta(cell: &mut [u8], meta: Meta) {
    set_word(cell, META, meta.0);
}

#[inline]
pub(super) fn keyspace(cell: &[u8]) -> u16 {
    u16::from_le_bytes([cell[KEYSPACE], cell[KEYSPACE + 1]])
}

#[inline]
pub(super) fn key(cell: &[u8]) -> &[u8] {
    &cell[HEADER..HEADER + meta(cell).key_len()]
}

/// The value; `None` in a tombstone.
#[inline]
pub(super) fn value(cell: &[u8]) -> Option<&[u8]> {
    let meta = meta(cell);
    let start = HEADER + meta.key_len();
    (!meta.tombstone()).then(|| &cell[start..start + meta.value_len()])
}

/// Whether the cell holds this key.
#[inline]
pub(super) fn holds(cell: &[u8], keyspace_of_key: u16, wanted: &[u8]) -> bool {
    keyspace(cell) == keyspace_of_key && key(cell) == wanted
}

/// Writes keyspace, key and value; the slab sets their lengths.
pub(super) fn fill(cell: &mut [u8], keyspace: u16, key: &[u8], value: &[u8]) {
    cell[KEYSPACE..HEADER].copy_from_slice(&keyspace.to_le_bytes());
    let (head, rest) = cell[HEADER..].split_at_mut(key.len());
    head.copy_from_slice(key);
    rest[..value.len()].copy_from_slice(value);
}

/// Bytes that the cell of a record needs.
pub(super) fn bytes(key_len: usize, value_len: usize) -> usize {
    HEADER + key_len + value_len
}
