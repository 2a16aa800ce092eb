//! The end of the hot log: allocation by compare-and-swap (hash-protocol.md, invariants 9 and 10).

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::address::{Address, PAGE, PAGE_HEADER};

/// TAIL, and the end of the frames in the ring.
#[derive(Debug)]
pub(super) struct Tail {
    next: AtomicU64,
    covered: AtomicU64,
}

impl Tail {
    /// A tail at a page boundary, with no frames in the ring yet.
    pub(super) fn new(at: Address) -> Tail {
        assert_eq!(at.in_page(), 0);
        Tail { next: AtomicU64::new(at.get()), covered: AtomicU64::new(at.get()) }
    }

    /// TAIL: all allocated space lies below.
    pub(super) fn get(&self) -> Address {
        Address::new(self.next.load(Ordering::Acquire))
    }

    /// Frames up to here are in the ring.
    pub(super) fn covered(&self) -> Address {
        Address::new(self.covered.load(Ordering::Acquire))
    }

    /// Records that frames up to here are in the ring, so that allocation may go on to there.
    pub(super) fn cover(&self, until: Address) {
        self.covered.fetch_max(until.get(), Ordering::Release);
    }

    /// Allocates a record. `None` if there is no frame for its end.
    pub(super) fn allocate(&self, bytes: u64) -> Option<Address> {
        let mut tail = self.get();
        loop {
            let place = place(tail, bytes);
            let end = place.plus(bytes);
            // A thread that reads TAIL above the record must see the frame too: this load acquires it, the exchange
            // passes it on.
            if end.get() > self.covered.load(Ordering::Acquire) {
                return None;
            }
            match self.exchange(tail, end) {
                Ok(()) => return Some(place),
                Err(now) => tail = now,
            }
        }
    }

    /// Closes the page in which the log ends, so that the next record begins a page. Returns the old TAIL.
    pub(super) fn close_page(&self) -> Address {
        let mut tail = self.get();
        loop {
            match self.exchange(tail, tail.page_end()) {
                Ok(()) => return tail.page_end(),
                Err(now) => tail = now,
            }
        }
    }

    fn exchange(&self, from: Address, to: Address) -> Result<(), Address> {
        let result = self.next.compare_exchange(from.get(), to.get(), Ordering::AcqRel, Ordering::Acquire);
        result.map(drop).map_err(Address::new)
    }
}

/// Address of a record when the log ends at `tail`: there, or on the next page if it does not fit.
fn place(tail: Address, bytes: u64) -> Address {
    let here = if tail.in_page() == 0 { tail.plus(PAGE_HEADER) } else { tail };
    if here.in_page() + bytes <= PAGE { here } else { here.page_end().plus(PAGE_HEADER) }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;

    #[test]
    fn records_lie_back_to_back_and_in_one_page_each() {
        let tail = Tail::new(Address::FIRST);
        tail.cover(Address::new(8 * PAGE));
        let mut end = Address::FIRST;
        for bytes in [24, 1920, 1920, 216, 32, 1920, 2000, 24].into_iter().cycle() {
            let Some(place) = tail.allocate(bytes) else { break };
            assert!(place.in_page() >= PAGE_HEADER && place.in_page() + bytes <= PAGE, "{place:?} {bytes}");
            let gap = place.get() - end.get();
            assert!(
                gap == 0
                    || gap == PAGE_HEADER && end.in_page() == 0
                    || place.in_page() == PAGE_HEADER && gap - PAGE_HEADER < bytes
            );
            end = place.plus(bytes);
            assert_eq!(tail.get(), end);
        }
        assert!(end.get() > 7 * PAGE, "it goes up to what is covered");
    }

    #[test]
    fn what_is_not_covered_is_not_given_out() {
        let tail = Tail::new(Address::FIRST);
        assert_eq!(tail.allocate(24), None);
        tail.cover(Address::new(2 * PAGE));
        let all = PAGE - PAGE_HEADER;
        assert_eq!(tail.allocate(all), Some(Address::new(PAGE + PAGE_HEADER)));
        assert_eq!((tail.get(), tail.allocate(24)), (Address::new(2 * PAGE), None));
        tail.cover(Address::new(3 * PAGE));
        tail.cover(Address::new(PAGE));
        assert_eq!(tail.allocate(24), Some(Address::new(2 * PAGE + PAGE_HEADER)));
    }

    #[test]
    fn a_closed_page_takes_nothing_more() {
        let tail = Tail::new(Address::FIRST);
        tail.cover(Address::new(4 * PAGE));
        assert_eq!(tail.close_page(), Address::FIRST, "nothing is in it");
        tail.allocate(24).unwrap();
        assert_eq!(tail.close_page(), Address::new(2 * PAGE));
        assert_eq!(tail.close_page(), Address::new(2 * PAGE));
        assert_eq!(tail.allocate(24), Some(Address::new(2 * PAGE + PAGE_HEADER)));
    }
}
