//! Shares: the caches' division of the memory that essential work leaves.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{CacheComponents, HORIZON, Memory, Shrinker};

/// A cache that has joined.
pub(super) struct Member {
    held: CacheComponents,
    shrink: Box<Shrinker>,
    demand: AtomicU64,
}

impl Member {
    pub(super) fn new(held: CacheComponents, shrink: Box<Shrinker>) -> Self {
        Member { held, shrink, demand: AtomicU64::new(0) }
    }

    /// Bytes that the cache holds.
    pub(super) fn held(&self, memory: &Memory) -> usize {
        self.held.bytes(memory)
    }

    pub(super) fn shrink(&self, bytes: usize) -> usize {
        (self.shrink)(bytes)
    }

    pub(super) fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    /// Halves the demand. A simultaneous count may be lost.
    pub(super) fn age(&self) {
        self.demand.store(self.demand() / 2, Ordering::Relaxed);
    }
}

/// The shrinker of a cache in several parts. Calls `give_back`, which asks the next part and returns the freed bytes,
/// until `bytes` are freed or all `parts` have refused in a row.
pub fn gather(bytes: usize, parts: usize, mut give_back: impl FnMut() -> usize) -> usize {
    let (mut freed, mut refused) = (0, 0);
    while freed < bytes && refused < parts {
        match give_back() {
            0 => refused += 1,
            more => (freed, refused) = (freed + more, 0),
        }
    }
    freed
}

/// A cache's claim on the budget. Dropping it leaves.
pub struct Share {
    memory: Arc<Memory>,
    member: Arc<Member>,
}

impl Share {
    pub(super) fn new(memory: Arc<Memory>, member: Arc<Member>) -> Self {
        Share { memory, member }
    }

    /// Bytes that this cache can count on, whatever the others hold now. It sums the use of all components: frequent
    /// callers should cache the answer.
    pub fn fair_part(&self) -> usize {
        self.memory.fair_part(&self.member)
    }

    /// Counts disk requests that this cache saved, or would have saved with more memory. The shares' memory is divided
    /// by these counts.
    pub fn count(&self, requests: u64) {
        let demand = self.member.demand.fetch_add(requests, Ordering::Relaxed) + requests;
        if demand > (self.memory.budget / HORIZON) as u64 {
            self.memory.age();
        }
    }

    /// Bytes that the cache holds.
    pub fn held(&self) -> usize {
        self.member.held(&self.memory)
    }

    /// After a refused lease: makes shares above their fair part give `bytes` back, if this share would stay within its
    /// own. Returns whether something was given back. See the rules of [`Memory`].
    pub fn reclaim(&self, bytes: usize) -> bool {
        let mut others = self.memory.members();
        others.retain(|member| !Arc::ptr_eq(member, &self.member));
        if others.is_empty() {
            return false;
        }
        let above = |member: &&Arc<Member>| member.held(&self.memory) > self.memory.fair_part(member);
        self.held() + bytes <= self.fair_part() && others.iter().filter(above).any(|member| member.shrink(bytes) > 0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.members.lock().retain(|member| !Arc::ptr_eq(member, &self.member));
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("of", &self.member.held).field("bytes", &self.held()).finish()
    }
}
