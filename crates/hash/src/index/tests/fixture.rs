//! Fixture of the index's loom models. A bucket has two entries.

use ecotone_sys::primitive::{loom::thread, orders};

use super::*;
use crate::log::{Address, Link, PAGE, PAGE_HEADER, tests::arena};

/// An index of one bucket.
pub(super) struct Fixture {
    domain: Arc<Domain>,
    pub(super) index: Index,
}

/// Tries the orders of `work` with at most `preemptions` preemptions, on an index that `prepare` has changed.
pub(super) fn all_orders(
    preemptions: usize,
    prepare: impl Fn(&Fixture, &Arc<Arena>) + Send + Sync + 'static,
    work: impl Fn(Arc<Fixture>) + Send + Sync + 'static,
) {
    let arena = arena();
    let begin = move || {
        let domain = Domain::new();
        let index = index(&domain, &arena, 0);
        let fixture = Fixture { domain, index };
        prepare(&fixture, &arena);
        fixture
    };
    orders::all_orders(preemptions, begin, work);
}

fn hash(tag: u64) -> u64 {
    tag << (64 - entry::TAG_BITS)
}

/// Address of the record with this number.
pub(super) fn address(number: u64) -> Address {
    Address::new(PAGE + PAGE_HEADER + 8 * number)
}

pub(super) fn link(number: u64) -> Link {
    Link::to(address(number))
}

impl Fixture {
    /// Makes the entry of a tag the head of a chain, inserting it if there is none. Returns the link before.
    pub(super) fn set(&self, tag: u64, number: u64) -> Link {
        let pin = self.domain.pin();
        loop {
            let found = self.index.find_or_insert(hash(tag), &pin).expect("there is room");
            if found.place.exchange(found.entry, found.entry.with_link(link(number))).is_ok() {
                return found.entry.link();
            }
            thread::yield_now();
        }
    }

    /// Like a conditional insert: sets the head unless the chain has another head than the search found. Returns
    /// whether it did.
    pub(super) fn insert_if(&self, tag: u64, searched: Link, number: u64) -> bool {
        let pin = self.domain.pin();
        loop {
            // Two tentative entries of one tag may need one more bucket than there is, until one of them is given up.
            if let Some(found) = self.index.find_or_insert(hash(tag), &pin) {
                if found.entry.link() != searched {
                    return false;
                }
                if found.place.exchange(found.entry, found.entry.with_link(link(number))).is_ok() {
                    return true;
                }
            }
            thread::yield_now();
        }
    }

    pub(super) fn find(&self, tag: u64) -> Option<Link> {
        let pin = self.domain.pin();
        self.index.find(hash(tag), &pin).map(|found| found.entry.link())
    }

    /// Tags of all entries, sorted.
    pub(super) fn tags(&self) -> Vec<u64> {
        let pin = self.domain.pin();
        let entries =
            self.index.current(&pin).chain(0, &pin).flat_map(|bucket| bucket.entries()).map(|place| place.load());
        let mut tags: Vec<u64> =
            entries.filter(|entry| *entry != entry::Entry::FREE).map(|entry| entry.tag()).collect();
        tags.sort_unstable();
        tags
    }
}
