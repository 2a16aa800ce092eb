//! A page of the hot log in its file form (`docs/format/hash.md`, "Page" and "Record").

use std::iter;

use ecotone_substrate::{
    codec::Malformed,
    limits,
    record_header::{HeaderKind, RecordHeader},
};
use ecotone_sys::{
    checksum::crc32c,
    words::{WORD, Words},
};

use super::{
    address::{Address, Link, PAGE, PAGE_HEADER},
    record::{Chain, Record},
};

const FORM: u8 = 1;

/// Location of a page. The page's checksum covers all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLocation {
    /// Identity of the file.
    pub file: u64,
    /// The file's birth.
    pub birth: u64,
    /// The page.
    pub address: Address,
}

/// Fills `page` with a page below SAFE, whose words begin at `first`.
pub(super) fn encode(words: &Words, first: usize, place: PageLocation, page: &mut [u8]) {
    words.copy_out(first, page);
    let mut used = PAGE_HEADER as usize;
    while let Some(chain) = chain_at(page, used).filter(|chain| chain.capacity() > 0) {
        let state = RecordHeader::from_word(word_at(page, used + WORD)).stored();
        page[used + WORD..][..WORD].copy_from_slice(&state.word().to_le_bytes());
        used += Record::bytes(chain.capacity()) as usize;
    }
    page[4..6].copy_from_slice(&[FORM, 0]);
    page[6..8].copy_from_slice(&(used as u16).to_le_bytes());
    page[8..16].copy_from_slice(&place.address.get().to_le_bytes());
    let sum = checksum(place, page);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A page of a file with a correct checksum.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    bytes: &'a [u8],
    address: Address,
    /// Where its records end.
    used: usize,
}

/// A record in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored<'a> {
    /// The record before it in its chain.
    pub link: Link,
    /// Whether the record is a value or a tombstone.
    pub kind: HeaderKind,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for a tombstone.
    pub value: &'a [u8],
    /// Bytes of the whole record, unused capacity included.
    bytes: u64,
}

impl Stored<'_> {
    /// Bytes of the whole record, unused capacity included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<'a> Page<'a> {
    /// The page in these bytes.
    pub fn parse(bytes: &'a [u8], place: PageLocation) -> Result<Page<'a>, Malformed> {
        let fail = |offset, what| Err(Malformed::new(offset, what));
        let Some((bytes, _)) = bytes.split_at_checked(PAGE as usize) else { return fail(0, "the page is too short") };
        if bytes[..4] != checksum(place, bytes).to_le_bytes() {
            return fail(0, "the checksum of the page does not match its content");
        }
        if bytes[4..6] != [FORM, 0] {
            return fail(4, "there is no such form of a page");
        }
        let used = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
        if !(PAGE_HEADER as usize..=PAGE as usize).contains(&used) || !used.is_multiple_of(WORD) {
            return fail(6, "the records of the page end where they cannot");
        }
        if bytes[8..16] != place.address.get().to_le_bytes() {
            return fail(8, "the page belongs to another place");
        }
        Ok(Page { bytes, address: place.address, used })
    }

    /// Where its records end.
    pub fn used(&self) -> u64 {
        self.used as u64
    }

    /// The record that begins at an address of this page.
    pub fn record(&self, address: Address) -> Result<Stored<'a>, Malformed> {
        let at = address.in_page() as usize;
        let fail = |what| Err(Malformed::new(at, what));
        let Some(chain) = chain_at(&self.bytes[..self.used], at).filter(|_| at >= PAGE_HEADER as usize) else {
            return fail("there is no record where one is named");
        };
        let (state, bytes) = (RecordHeader::from_word(word_at(self.bytes, at + WORD)), Record::bytes(chain.capacity()));
        if chain.capacity() == 0 || at + bytes as usize > self.used || !chain.is_storable() {
            return fail("a record has a form that none has");
        }
        let (key_len, value_len) = (state.key_len(), state.value_len());
        let len = key_len + value_len;
        let fits = len <= limits::MAX_RECORD && Record::capacity_for(len) <= chain.capacity();
        if state != state.stored() || !fits || (state.kind() == HeaderKind::Tombstone && value_len > 0) {
            return fail("a record has lengths or a kind that none has");
        }
        let (key, rest) = self.bytes[at + 2 * WORD..].split_at(key_len);
        Ok(Stored { link: chain.link(), kind: state.kind(), key, value: &rest[..value_len], bytes })
    }

    /// The record at an address that a chain names. A record that was given up is an error.
    pub(crate) fn linked(&self, address: Address) -> Result<Stored<'a>, Malformed> {
        let record = self.record(address)?;
        if record.kind == HeaderKind::Invalid {
            return Err(Malformed::new(address.in_page() as usize, "a chain has a record that was given up"));
        }
        Ok(record)
    }

    /// All records, those that were given up too. Ends after a malformed one.
    pub fn records(self) -> impl Iterator<Item = Result<(Address, Stored<'a>), Malformed>> {
        let at = move |offset: u64| {
            let address = self.address.plus(offset);
            (offset < self.used as u64).then(|| self.record(address).map(|record| (address, record)))
        };
        iter::successors(at(PAGE_HEADER), move |last| {
            let (address, record) = last.as_ref().ok()?;
            at(address.get() - self.address.get() + record.bytes)
        })
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// The first word of the record at an offset, if both of its words lie within the bytes.
fn chain_at(bytes: &[u8], at: usize) -> Option<Chain> {
    (at + 2 * WORD <= bytes.len()).then(|| Chain::from_word(word_at(bytes, at)))
}

fn checksum(place: PageLocation, page: &[u8]) -> u32 {
    let sum = crc32c(crc32c(0, &place.file.to_le_bytes()), &place.birth.to_le_bytes());
    crc32c(sum, &page[4..PAGE as usize])
}
