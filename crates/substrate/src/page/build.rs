//! Builds pages.

use super::{
    layout::{
        HEADER, Header, NO_UPPER, PageAddress, PageKind, RECORD_OVERHEAD, RecordKind, SLOT, VERSION, checksum, head,
    },
    read::{Page, slot_fields},
};
use crate::limits::{MAX_KEY, MAX_RECORD, PAGE};

/// Length of the common prefix of these fences, which keys are stored without.
pub fn prefix_len(lower: &[u8], upper: Option<&[u8]>) -> usize {
    let Some(upper) = upper else { return 0 };
    lower.iter().zip(upper).take_while(|(a, b)| a == b).count()
}

/// Bytes of a page's [`capacity`] that a record takes, its slot included.
pub const fn record_bytes(prefix: usize, key: usize, value: usize) -> usize {
    RECORD_OVERHEAD + key - prefix + value
}

/// Bytes for records in a page with these fences.
pub const fn capacity(lower: &[u8], upper: Option<&[u8]>) -> usize {
    let upper = if let Some(upper) = upper { upper.len() } else { 0 };
    PAGE - HEADER - lower.len() - upper
}

/// Sets a (new) address and sequence of a finished page, and the checksum that covers them. For pages that are built
/// before their address is known.
///
/// # Panics
/// If `page` does not have the length of a page.
pub fn seal(page: &mut [u8], place: PageAddress, seq: u64) {
    assert_eq!(page.len(), PAGE, "a page has {PAGE} bytes");
    page[8..16].copy_from_slice(&seq.to_le_bytes());
    page[16..20].copy_from_slice(&place.page.to_le_bytes());
    let sum = checksum(page, place);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Copies a page to `buf` for the same address, with other values at some positions. The new values have the lengths of
/// the old ones.
///
/// # Panics
/// If `buf` does not have the length of a page, or there is no record with a value of this length at a position.
pub fn replace_values<'v>(
    buf: &mut [u8],
    old: &Page<'_>,
    values: impl Iterator<Item = (usize, &'v [u8])>,
    place: PageAddress,
    seq: u64,
) {
    buf.copy_from_slice(old.bytes);
    for (position, value) in values {
        let (offset, suffix, length) = slot_fields(&old.slots[position]);
        assert_eq!(length, value.len(), "a value is replaced by one of its length");
        buf[offset + 1 + suffix..][..length].copy_from_slice(value);
    }
    seal(buf, place, seq);
}

/// Fills a page with records in the order of their keys.
#[derive(Debug)]
pub struct PageBuilder<'a> {
    buf: &'a mut [u8],
    place: PageAddress,
    kind: PageKind,
    related: u32,
    lower: u16,
    /// Length of the upper fence, if there is one.
    upper: Option<u16>,
    prefix: usize,
    count: usize,
    heap: usize,
}

impl<'a> PageBuilder<'a> {
    /// An empty page in `buf` (4096 bytes with any contents) for the keys from `lower` up to and without `upper`;
    /// without `upper`, up to the end of all keys. `related` is the base page of an overflow page, otherwise the
    /// caller's.
    ///
    /// # Panics
    /// If `buf` has another length, a fence is longer than a key may be, or the range is empty.
    pub fn new(
        buf: &'a mut [u8],
        place: PageAddress,
        kind: PageKind,
        related: u32,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Self {
        assert_eq!(buf.len(), PAGE, "a page has {PAGE} bytes");
        assert!(lower.len() <= MAX_KEY && upper.is_none_or(|u| u.len() <= MAX_KEY), "a fence is longer than a key");
        assert!(upper.is_none_or(|upper| lower < upper), "the fences are in the wrong order");
        let fences = capacity(lower, upper) + HEADER;
        buf[fences..fences + lower.len()].copy_from_slice(lower);
        buf[fences + lower.len()..].copy_from_slice(upper.unwrap_or_default());
        let (prefix, upper) = (prefix_len(lower, upper), upper.map(|upper| upper.len() as u16));
        PageBuilder { buf, place, kind, related, lower: lower.len() as u16, upper, prefix, count: 0, heap: fences }
    }

    /// Bytes left for records, slots included.
    pub fn room(&self) -> usize {
        self.heap - self.slots_end()
    }

    /// Length of the prefix that keys are stored without.
    pub fn prefix_len(&self) -> usize {
        self.prefix
    }

    /// Records so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a record. Returns `false` and changes nothing if it does not fit. The value of a tombstone is empty.
    ///
    /// # Panics
    /// If the key is not above the last one or not within the fences (such a page would lose the record), or a limit is
    /// exceeded.
    pub fn push(&mut self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        assert!(self.accepts(key), "the key is out of order or outside of the fences");
        assert!(key.len() <= MAX_KEY && key.len() + value.len() <= MAX_RECORD, "a record exceeds the limits");
        assert!(kind != RecordKind::Tombstone || value.is_empty(), "a tombstone has no value");
        if record_bytes(self.prefix, key.len(), value.len()) > self.room() {
            return false;
        }
        let suffix = &key[self.prefix..];
        self.heap -= 1 + suffix.len() + value.len();
        let record = &mut self.buf[self.heap..];
        record[0] = kind as u8;
        record[1..][..suffix.len()].copy_from_slice(suffix);
        record[1 + suffix.len()..][..value.len()].copy_from_slice(value);
        self.push_slot(suffix, value.len());
        true
    }

    fn push_slot(&mut self, suffix: &[u8], value: usize) {
        let at = self.slots_end();
        let slot = &mut self.buf[at..at + SLOT];
        slot[..2].copy_from_slice(&(self.heap as u16).to_le_bytes());
        slot[2..4].copy_from_slice(&(suffix.len() as u16).to_le_bytes());
        slot[4..6].copy_from_slice(&(value as u16).to_le_bytes());
        slot[6..].copy_from_slice(&head(suffix).to_be_bytes());
        self.count += 1;
    }

    /// Completes the page: header, zeros in the gap, checksum. `seq` rises with every write of this page.
    pub fn finish(self, seq: u64) {
        let gap = self.slots_end()..self.heap;
        self.buf[gap].fill(0);
        let header = Header {
            checksum: 0,
            version: VERSION,
            kind: self.kind as u8,
            flags: if self.upper.is_none() { NO_UPPER } else { 0 },
            sequence: seq,
            page: self.place.page,
            related: self.related,
            count: self.count as u16,
            heap: self.heap as u16,
            lower: self.lower,
            upper: self.upper.unwrap_or(0),
            prefix: self.prefix as u16,
            reserved: [0; 6],
        };
        header.write(self.buf);
        seal(self.buf, self.place, seq);
    }

    fn slots_end(&self) -> usize {
        HEADER + self.count * SLOT
    }

    fn accepts(&self, key: &[u8]) -> bool {
        let fences = PAGE - usize::from(self.lower) - usize::from(self.upper.unwrap_or(0));
        let (lower, upper) = self.buf[fences..].split_at(usize::from(self.lower));
        let ascends = |suffix: &[u8]| if self.count == 0 { key >= lower } else { suffix > self.last_suffix() };
        key.strip_prefix(&lower[..self.prefix]).is_some_and(ascends) && (self.upper.is_none() || key < upper)
    }

    /// The suffix of the last record, which stands at the start of the heap.
    fn last_suffix(&self) -> &[u8] {
        let slot = self.slots_end() - SLOT;
        let length = u16::from_le_bytes([self.buf[slot + 2], self.buf[slot + 3]]);
        &self.buf[self.heap + 1..][..usize::from(length)]
    }
}
