//! The address of a read-cache entry: a word of one of the two queues, in the form that links use.

use crate::log::Link;

/// The two queues of S3-FIFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheQueue {
    /// For records that were read once.
    Small,
    /// For records that are read again and again.
    Main,
}

impl CacheQueue {
    pub(super) const BOTH: [CacheQueue; 2] = [CacheQueue::Small, CacheQueue::Main];
}

/// The address of a read-cache entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachedEntryAddress {
    pub(super) part: CacheQueue,
    /// Modulo [`CachedEntryAddress::WORDS`].
    pub(super) word: u64,
}

impl CachedEntryAddress {
    /// Words of a queue that addresses tell apart: 4 TiB, of which the queue holds the last few hundred MiB.
    pub(super) const WORDS: u64 = 1 << 39;

    /// The address of a word of the queue.
    pub(super) fn new(part: CacheQueue, word: u64) -> CachedEntryAddress {
        CachedEntryAddress { part, word: word % Self::WORDS }
    }

    /// The address that a link names, if it names a read-cache entry.
    #[inline]
    pub(super) fn of(link: Link) -> Option<CachedEntryAddress> {
        let bits = link.copy()?;
        let part = if bits < Self::WORDS { CacheQueue::Small } else { CacheQueue::Main };
        Some(CachedEntryAddress::new(part, bits))
    }

    /// The link to this address.
    pub(super) fn link(self) -> Link {
        let part = if self.part == CacheQueue::Main { Self::WORDS } else { 0 };
        Link::to_cached(part | self.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_copy_names_its_place() {
        for part in CacheQueue::BOTH {
            for word in [0, 1, CachedEntryAddress::WORDS - 1] {
                let place = CachedEntryAddress::new(part, word);
                assert_eq!(CachedEntryAddress::of(place.link()), Some(place));
                assert_eq!(CachedEntryAddress::new(part, word + 5 * CachedEntryAddress::WORDS), place);
            }
        }
        assert_eq!(CachedEntryAddress::of(Link::NONE), None);
    }
}
