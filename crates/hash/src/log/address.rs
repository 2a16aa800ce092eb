//! Positions in the hot log, and the short form in which words name them.

use ecotone_substrate::limits;
use ecotone_sys::{
    primitive::{unless_loom, unless_shuttle},
    words::WORD,
};

/// Bytes of a page. Loom has so few that it can try all orders.
pub(crate) const PAGE: u64 = unless_loom(limits::PAGE as u64, 64);
/// Bytes of a frame, which holds some pages in memory. Shuttle has so few that a schedule fills several.
pub(crate) const FRAME: u64 = unless_loom(unless_shuttle(16 * PAGE, PAGE), 2 * PAGE);
/// Bytes of the page header, before the first record.
pub(crate) const PAGE_HEADER: u64 = 16;
/// The most bytes from BEGIN to TAIL, plus the bytes appended under one pin: half of the range that short addresses
/// tell apart.
pub(crate) const MAX_LOG: u64 = 4 << 40;

/// A position in bytes, a multiple of 8. Positions rise over the keyspace's whole existence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(u64);

impl Address {
    /// Where the log of a new keyspace begins.
    pub const FIRST: Address = Address(PAGE);

    /// The position `bytes` from the start of the first log.
    pub const fn new(bytes: u64) -> Address {
        Address(bytes)
    }

    /// Bytes from the start of the first log.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The address `bytes` further.
    pub const fn plus(self, bytes: u64) -> Address {
        Address(self.0 + bytes)
    }

    /// Bytes from the beginning of its page.
    pub(crate) const fn in_page(self) -> u64 {
        self.0 % PAGE
    }

    /// Its page.
    pub(crate) const fn page(self) -> Address {
        Address(self.0 - self.in_page())
    }

    /// The first page boundary at or above it.
    pub(crate) const fn page_end(self) -> Address {
        Address(self.0.next_multiple_of(PAGE))
    }

    /// Where frame `number` begins.
    pub(crate) const fn of_frame(number: u64) -> Address {
        Address(number * FRAME)
    }

    /// Number of its frame.
    pub(crate) const fn frame(self) -> u64 {
        self.0 / FRAME
    }

    /// Where its frame ends.
    pub(crate) const fn frame_end(self) -> Address {
        Address::of_frame(self.frame() + 1)
    }

    /// Words of a frame.
    pub(crate) const fn words_of_a_frame() -> usize {
        FRAME as usize / WORD
    }

    /// Index of the address's word in the frame.
    pub(crate) const fn word(self) -> usize {
        (self.0 % FRAME) as usize / WORD
    }
}

/// The 41 bits by which a word names a record: a short address, or none, or the place of an entry in the read cache. A
/// short address is stale when the record has left the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(u64);

/// Bits of a short address.
const SHORT_BITS: u32 = 40;
const SHORT: u64 = (1 << SHORT_BITS) - 1;
/// Set if the link names a read-cache entry.
const COPY: u64 = 1 << SHORT_BITS;

impl Link {
    /// Bits of a link.
    pub(crate) const BITS: u32 = SHORT_BITS + 1;
    /// Names nothing. It is the short address of a place in a page's header. It is not zero, so that an entry without
    /// an address differs from a free one.
    pub(crate) const NONE: Link = Link(1);

    /// The link to a record.
    pub(crate) const fn to(address: Address) -> Link {
        Link((address.0 / WORD as u64) & SHORT)
    }

    /// From the lower bits of a word.
    pub(crate) const fn from_bits(bits: u64) -> Link {
        Link(bits & ((1 << Self::BITS) - 1))
    }

    /// The link to the read-cache entry at this 40-bit place.
    pub(crate) const fn to_cached(place: u64) -> Link {
        Link(COPY | place & SHORT)
    }

    /// The place of the read-cache entry that the link names, if it names one.
    #[inline]
    pub(crate) fn copy(self) -> Option<u64> {
        (self.0 & COPY != 0).then_some(self.0 & SHORT)
    }

    /// For the lower bits of a word.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the link names a read-cache entry.
    pub(crate) const fn is_cached(self) -> bool {
        self.0 > SHORT
    }

    /// The address at or above `begin` that the link names, if any. The link must have been read after `begin`, and
    /// links to records that had left the log before must have been swept.
    #[inline]
    pub(crate) fn address_from(self, begin: Address) -> Option<Address> {
        self.address(begin, begin.plus(MAX_LOG))
    }

    /// The address from `begin` up to `until` that the link names, if any.
    #[inline]
    pub(crate) fn address(self, begin: Address, until: Address) -> Option<Address> {
        let distance = self.0.wrapping_sub(begin.0 / WORD as u64) & SHORT;
        let address = begin.plus(distance * WORD as u64);
        (self.0 <= SHORT && address < until && address.in_page() >= PAGE_HEADER).then_some(address)
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_one_address_of_the_log_or_none() {
        for begin in [PAGE, 5 << 43, (5 << 43) - PAGE, (7 << 43) + 12 * PAGE] {
            let begin = Address::new(begin);
            let until = begin.plus(4 << 40);
            for distance in [PAGE_HEADER, PAGE - 8, 3 * PAGE + 24, (4 << 40) - 8] {
                let address = begin.plus(distance);
                assert_eq!(Link::to(address).address(begin, until), Some(address));
                assert_eq!(Link::to(address).address(begin, address), None, "it ends before");
                assert_eq!(Link::to(address).address(address.plus(8), until), None, "it begins behind");
            }
            assert_eq!(Link::NONE.address(begin, until), None);
            assert_eq!(Link::from_bits(0).address(begin, until), None);
        }
    }

    #[test]
    fn bits_above_the_short_address_name_no_record() {
        let link = Link::to(Address::new(PAGE + 16));
        assert_eq!(Link::from_bits(link.bits() | u64::MAX << Link::BITS), link);
        let copy = Link::from_bits(link.bits() | 1 << SHORT_BITS);
        assert_eq!(copy.address(Address::FIRST, Address::new(1 << 40)), None);
        assert_eq!((copy.copy(), link.copy(), Link::NONE.copy()), (Some(link.bits()), None, None));
        assert_eq!(Link::to_cached(link.bits()), copy);
        assert_eq!(Link::to_cached(0).copy(), Some(0), "the first place of all");
    }

    #[test]
    fn a_position_has_a_page_and_a_word_in_its_frame() {
        let address = Address::new(3 * FRAME + 2 * PAGE + 40);
        assert_eq!((address.frame(), address.word(), address.in_page()), (3, (2 * PAGE as usize + 40) / 8, 40));
        assert_eq!(address.page_end(), Address::new(3 * FRAME + 3 * PAGE));
        assert_eq!(address.page_end().page_end(), address.page_end());
    }
}
