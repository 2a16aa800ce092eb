//! The state of the thread that evicts entries of the read cache.

use super::address::CacheQueue;

/// State of the evicting thread.
#[derive(Debug, Default)]
pub(super) struct Evictor {
    pub(super) small: Ends,
    pub(super) main: Ends,
    /// In which TiB the hot log ended at the last sweep of links.
    pub(super) swept: u64,
    pub(super) scratch: Scratch,
}

/// Key and value of an entry under eviction.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// Frame numbers of a queue.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The first that is still in the ring.
    pub(super) first: u64,
    /// The first frame whose entries may be in chains.
    pub(super) linked: u64,
}

impl Evictor {
    pub(super) fn ends(&mut self, part: CacheQueue) -> &mut Ends {
        match part {
            CacheQueue::Small => &mut self.small,
            CacheQueue::Main => &mut self.main,
        }
    }
}
