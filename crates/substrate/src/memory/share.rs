//! What essential memory leaves, divided among the caches.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{HORIZON, Held, Memory, Shrinker};

/// A cache that has joined.
pub(super) struct Member {
    held: Held,
    shrink: Box<Shrinker>,
    demand: AtomicU64,
}

impl Member {
    pub(super) fn new(held: Held, shrink: Box<Shrinker>) -> Self {
        Member { held, shrink, demand: AtomicU64::new(0) }
    }

    /// Bytes that it holds.
    pub(super) fn held(&self, memory: &Memory) -> usize {
        self.held.bytes(memory)
    }

    pub(super) fn shrink(&self, bytes: usize) -> usize {
        (self.shrink)(bytes)
    }

    pub(super) fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    /// Halves the demand. What is counted at this very moment may be lost.
    pub(super) fn age(&self) {
        self.demand.store(self.demand() / 2, Ordering::Relaxed);
    }
}

/// What the shrinker of a cache in several parts does: asks one part after the other by `give_back`, which tells the
/// bytes that it freed, until `bytes` are freed or all `parts` have refused in a row.
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

    /// Bytes that this cache can count on, whatever the others hold now. Adds up the use of all components: remember
    /// the answer where it is needed often.
    pub fn fair_part(&self) -> usize {
        self.memory.fair_part(&self.member)
    }

    /// Counts requests to the disk that this cache saved, or would have with more memory. Shares divide the memory by
    /// it.
    pub fn count(&self, requests: u64) {
        let demand = self.member.demand.fetch_add(requests, Ordering::Relaxed) + requests;
        if demand > (self.memory.budget / HORIZON) as u64 {
            self.memory.age();
        }
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.member.held(&self.memory)
    }

    /// After a refused lease: has others that are above their fair part give `bytes` back, if this one would stay
    /// within its own. True if something was given back. See the rules of [`Memory`].
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
