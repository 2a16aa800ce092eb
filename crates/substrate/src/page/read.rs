//! Reads pages. Nothing here trusts the bytes: a malformed record is treated as missing.

use std::fmt;

use super::layout::{
    HEADER, Header, NO_UPPER, PageAddress, PageError, PageKind, RecordKind, SLOT, VERSION, checksum, head,
};
use crate::limits::{MAX_KEY, PAGE};

/// Up to this many equal heads are compared one by one.
const LINEAR_HEADS: usize = 4;

/// One record of a page. The key is the page's [`prefix`](Page::prefix) followed by `suffix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Value or tombstone.
    pub kind: RecordKind,
    /// The key without the prefix.
    pub suffix: &'a [u8],
    /// The value; empty for a tombstone.
    pub value: &'a [u8],
}

/// A parsed page: the header is valid, the slots may still be malformed. A malformed slot has no
/// [`entry`](Self::entry).
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub(super) bytes: &'a [u8; PAGE],
    pub(super) slots: &'a [[u8; SLOT]],
    pub(super) heap: usize,
    pub(super) kind: PageKind,
    pub(super) sequence: u64,
    pub(super) related: u32,
    pub(super) lower: &'a [u8],
    pub(super) upper: Option<&'a [u8]>,
    pub(super) prefix: &'a [u8],
}

impl fmt::Debug for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fences = (self.lower, self.upper);
        f.debug_struct("Page")
            .field("kind", &self.kind)
            .field("fences", &fences)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Page<'a> {
    /// Verifies the checksum of `bytes` at `place`, then the header.
    pub fn parse(bytes: &'a [u8], place: PageAddress) -> Result<Self, PageError> {
        let page: &[u8; PAGE] = bytes.try_into().map_err(|_| PageError::Malformed("its length"))?;
        let header = Header::read(page)?;
        if header.checksum != checksum(page, place) {
            return Err(PageError::Checksum);
        }
        if header.page != place.page {
            return Err(PageError::Malformed("its page number"));
        }
        Self::with_header(page, &header)
    }

    /// A view of bytes that stayed in memory since they were built or parsed: checks the header, and neither checksum
    /// nor page number.
    pub fn reparse(bytes: &'a [u8]) -> Result<Self, PageError> {
        let page: &[u8; PAGE] = bytes.try_into().map_err(|_| PageError::Malformed("its length"))?;
        Self::with_header(page, &Header::read(page)?)
    }

    fn with_header(bytes: &'a [u8; PAGE], header: &Header) -> Result<Self, PageError> {
        if header.version > VERSION {
            return Err(PageError::Newer(header.version));
        }
        if header.version != VERSION || header.flags & !NO_UPPER != 0 || header.reserved != [0; 6] {
            return Err(PageError::Malformed("a version or flags that are not known"));
        }
        let kind = PageKind::of(header.kind).ok_or(PageError::Malformed("its kind"))?;
        let (lower, upper) = fences(bytes, header).ok_or(PageError::Malformed("its fences"))?;
        let prefix = prefix(lower, upper, header.prefix.into()).ok_or(PageError::Malformed("its prefix"))?;
        let (heap, slots) = slots(bytes, header).ok_or(PageError::Malformed("its heap"))?;
        let Header { sequence, related, .. } = *header;
        Ok(Page { bytes, slots, heap, kind, sequence, related, lower, upper, prefix })
    }

    /// The use of the page.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// The page sequence that the builder was given.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The related page: of an overflow page, its base page.
    pub fn related(&self) -> u32 {
        self.related
    }

    /// The lower fence: the smallest key that may be in the page.
    pub fn lower(&self) -> &'a [u8] {
        self.lower
    }

    /// The upper fence: keys in the page are below it. `None` is the end of all keys.
    pub fn upper(&self) -> Option<&'a [u8]> {
        self.upper
    }

    /// The common prefix of all keys, which the records leave out.
    pub fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// Whether `key` lies within the fences.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.lower <= key && self.upper.is_none_or(|upper| key < upper)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of this page's capacity that are not used.
    pub fn room(&self) -> usize {
        self.heap - HEADER - self.slots.len() * SLOT
    }

    /// The record of `key`. A tombstone is a record.
    pub fn get(&self, key: &[u8]) -> Option<(RecordKind, &'a [u8])> {
        let entry = self.entry(self.search(key).ok()?)?;
        Some((entry.kind, entry.value))
    }

    /// The position of `key`, or the position to insert it at, like [`slice::binary_search`].
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let Some(suffix) = key.strip_prefix(self.prefix) else {
            return Err(if key < self.prefix { 0 } else { self.len() });
        };
        // Heads first, without reading the heap: usually they suffice.
        let wanted = head(suffix);
        let first = self.slots.partition_point(|slot| slot_head(slot) < wanted);
        self.search_behind(first, wanted, suffix)
    }

    /// The rest of a search. `first` is the position of the first slot whose head is not below `wanted`.
    pub(super) fn search_behind(&self, first: usize, wanted: u32, suffix: &[u8]) -> Result<usize, usize> {
        let behind = self.slots.get(first..).unwrap_or_default();
        // Mostly there is one such head or none, and a binary search would touch many cache lines to find that out.
        let few = behind.iter().take(LINEAR_HEADS).take_while(|slot| slot_head(slot) == wanted).count();
        let all = if few < LINEAR_HEADS { few } else { behind.partition_point(|slot| slot_head(slot) == wanted) };
        let equal = behind.get(..all).unwrap_or_default();
        let found = equal.binary_search_by(|slot| self.suffix(slot).cmp(suffix));
        found.map(|i| first + i).map_err(|i| first + i)
    }

    /// The record at a position, in the order of keys. `None` past the last one and for a malformed one.
    pub fn entry(&self, position: usize) -> Option<Entry<'a>> {
        let slot = self.slots.get(position)?;
        let (offset, suffix, value) = slot_fields(slot);
        let record = self.bytes.get(offset..)?;
        let (&kind, record) = record.split_first()?;
        let (suffix, record) = record.split_at_checked(suffix)?;
        Some(Entry { kind: RecordKind::of(kind)?, suffix, value: record.get(..value)? })
    }

    /// Writes the whole key at a position into `key`. Returns `false`, with an empty key, if there is no entry.
    pub fn key_into(&self, position: usize, key: &mut Vec<u8>) -> bool {
        key.clear();
        let entry = self.entry(position);
        if let Some(entry) = entry {
            key.extend_from_slice(self.prefix);
            key.extend_from_slice(entry.suffix);
        }
        entry.is_some()
    }

    /// The records in the order of keys; malformed ones are left out.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Entry<'a>> + use<'a> {
        let page = *self;
        (0..page.len()).filter_map(move |position| page.entry(position))
    }

    fn suffix(&self, slot: &[u8; SLOT]) -> &'a [u8] {
        let (offset, suffix, _) = slot_fields(slot);
        let start = offset + 1;
        self.bytes.get(start..start + suffix).unwrap_or_default()
    }
}

/// Offset, suffix length and value length.
#[inline]
pub(super) fn slot_fields(slot: &[u8; SLOT]) -> (usize, usize, usize) {
    let [o0, o1, s0, s1, v0, v1, ..] = *slot;
    let field = |low, high| usize::from(u16::from_le_bytes([low, high]));
    (field(o0, o1), field(s0, s1), field(v0, v1))
}

#[inline]
pub(super) fn slot_head(slot: &[u8; SLOT]) -> u32 {
    let [.., a, b, c, d] = *slot;
    u32::from_be_bytes([a, b, c, d])
}

type Fences<'a> = (&'a [u8], Option<&'a [u8]>);

/// The fences, if they are in bounds and in order.
fn fences<'a>(bytes: &'a [u8; PAGE], header: &Header) -> Option<Fences<'a>> {
    let (lower, upper) = (usize::from(header.lower), usize::from(header.upper));
    if lower > MAX_KEY || upper > MAX_KEY {
        return None;
    }
    let (lower, upper) = bytes.get(PAGE - lower - upper..)?.split_at_checked(lower)?;
    if header.flags & NO_UPPER == 0 {
        return (lower < upper).then_some((lower, Some(upper)));
    }
    upper.is_empty().then_some((lower, None))
}

/// The first `length` bytes of the lower fence, if they are the common prefix of both fences.
fn prefix<'a>(lower: &'a [u8], upper: Option<&[u8]>, length: usize) -> Option<&'a [u8]> {
    let prefix = lower.get(..length)?;
    let longest = match upper {
        Some(upper) => upper.starts_with(prefix) && lower.get(length) != upper.get(length),
        None => length == 0,
    };
    longest.then_some(prefix)
}

/// Start of the heap, and the slots, if they are in bounds.
fn slots<'a>(bytes: &'a [u8; PAGE], header: &Header) -> Option<(usize, &'a [[u8; SLOT]])> {
    let heap = usize::from(header.heap);
    let fences = PAGE - usize::from(header.lower) - usize::from(header.upper);
    let slots = bytes.get(HEADER..heap)?.get(..usize::from(header.count) * SLOT)?;
    (heap <= fences).then_some((heap, slots.as_chunks().0))
}
