//! The word of the hot index for one tag in one bucket (hash-protocol.md, "The index entry").

use crate::log::Link;

/// Bits of a tag.
pub(crate) const TAG_BITS: u32 = 21;
const TAG_SHIFT: u32 = Link::BITS;
const TENTATIVE: u64 = 1 << (TAG_SHIFT + TAG_BITS);

/// A link, a tag, a bit for tentative (an insert is in progress), and a bit for frozen (the bucket is being split). An
/// entry without a record has [`Link::NONE`], so only a free entry is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    /// A free entry.
    pub(crate) const FREE: Entry = Entry(0);
    /// Bit of an entry that does not change any more, since its bucket is being split.
    pub(super) const FROZEN: u64 = 1 << 63;
    /// An entry of the next table that is not made yet. This word never comes back, so each entry is made once.
    pub(super) const UNMADE: Entry = Entry(u64::MAX);

    /// The head of a chain, or with [`Link::NONE`] an empty one.
    pub(crate) fn new(tag: u64, link: Link) -> Entry {
        debug_assert!(tag < 1 << TAG_BITS && link.bits() != 0);
        Entry(tag << TAG_SHIFT | link.bits())
    }

    /// An entry whose insert does not know yet whether another thread inserts the same tag.
    pub(super) fn tentative(tag: u64) -> Entry {
        Entry(Entry::new(tag, Link::NONE).0 | TENTATIVE)
    }

    /// From the word.
    pub(crate) const fn from_word(word: u64) -> Entry {
        Entry(word)
    }

    /// The word.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The first record of its chain.
    #[inline]
    pub(crate) fn link(self) -> Link {
        Link::from_bits(self.0)
    }

    /// The same entry with another first record.
    pub(crate) fn with_link(self, link: Link) -> Entry {
        Entry::new(self.tag(), link)
    }

    pub(super) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT & ((1 << TAG_BITS) - 1)
    }

    pub(super) fn is_tentative(self) -> bool {
        self.0 & TENTATIVE != 0
    }

    /// Whether the entry does not change any more.
    pub(super) fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }

    /// The form of a frozen entry in the next table: the entry itself, or none if it is free or tentative.
    pub(super) fn carried(self) -> Option<Entry> {
        let entry = Entry(self.0 & !Self::FROZEN);
        (entry != Entry::FREE && !entry.is_tentative()).then_some(entry)
    }

    /// Whether the entry has this tag and is neither tentative nor frozen.
    #[inline]
    pub(super) fn is_of(self, tag: u64) -> bool {
        self.0 >> TAG_SHIFT == tag && self != Entry::FREE
    }

    /// Whether the entry has this tag, tentative and frozen ones included.
    pub(super) fn has_tag(self, tag: u64) -> bool {
        self.0 & !Self::FROZEN != 0 && self.tag() == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Address, PAGE};

    #[test]
    fn every_state_of_every_tag_is_a_word_of_its_own() {
        for tag in [0, 1, (1 << TAG_BITS) - 1] {
            for link in [Link::NONE, Link::to(Address::new(PAGE + 16)), Link::to(Address::new((1 << 43) - 8))] {
                let entry = Entry::new(tag, link);
                assert_eq!((entry.tag(), entry.link(), entry.is_tentative()), (tag, link, false));
                assert!(entry.has_tag(tag) && !entry.has_tag(tag ^ 1));
                assert!(entry.is_of(tag) && !entry.is_of(tag ^ 1));
                assert_eq!(entry.with_link(Link::NONE), Entry::new(tag, Link::NONE));
                assert_eq!(Entry::from_word(entry.word()), entry);
                assert_ne!(entry, Entry::FREE, "also without an address and with tag 0");
            }
            let tentative = Entry::tentative(tag);
            assert!(
                tentative.is_tentative()
                    && tentative.has_tag(tag)
                    && !tentative.is_of(tag)
                    && tentative != Entry::new(tag, Link::NONE)
            );
        }
        assert!(!Entry::FREE.has_tag(0) && !Entry::FREE.is_of(0));
    }

    #[test]
    fn a_frozen_entry_is_found_by_no_search_and_carried_if_it_was_settled() {
        let frozen = |entry: Entry| Entry::from_word(entry.word() | Entry::FROZEN);
        for tag in [0, 1, (1 << TAG_BITS) - 1] {
            let (entry, tentative) = (Entry::new(tag, Link::to(Address::new(PAGE + 16))), Entry::tentative(tag));
            for entry in [entry, tentative, Entry::FREE] {
                assert!(frozen(entry).is_frozen() && !entry.is_frozen() && !frozen(entry).is_of(tag));
                assert!(frozen(entry) != Entry::UNMADE && !Entry::UNMADE.is_of(tag));
            }
            assert!(frozen(entry).has_tag(tag) && frozen(tentative).has_tag(tag), "who inserts the tag sees it");
            assert!(!frozen(Entry::FREE).has_tag(tag));
            assert_eq!([entry, tentative, Entry::FREE].map(|entry| frozen(entry).carried()), [Some(entry), None, None]);
        }
    }
}
