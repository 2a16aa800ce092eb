//! Claims on base pages. A claim gives one background operation exclusive use of a segment (tree-protocol.md,
//! invariants 6, 10 and 11).

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

use ecotone_substrate::lock_rank::{self, HeldRank, LockRank};
use ecotone_sys::primitive::Mutex;

/// The claimed base pages, each with its number of claims. A claim never blocks: an operation that fails to claim does
/// something else or retries.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pages: Mutex<HashMap<u32, u32>>,
}

/// Claimed pages; dropping it releases them.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    pages: Vec<u32>,
    _held: HeldRank,
}

impl Claims {
    /// An empty claim, to be extended.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim { claims: self, pages: Vec::new(), _held: lock_rank::hold(LockRank::Claims) }
    }

    /// Whether `page` is claimed.
    pub(crate) fn is_claimed(&self, page: u32) -> bool {
        self.pages.lock().contains_key(&page)
    }
}

impl Claim<'_> {
    /// Adds pages. Returns false and adds none if one of them is claimed already, also by this claim.
    pub(crate) fn try_add(&mut self, pages: Range<u32>) -> bool {
        let mut claimed = self.claims.pages.lock();
        let is_free = pages.clone().all(|page| !claimed.contains_key(&page));
        if is_free {
            claimed.extend(pages.clone().map(|page| (page, 1)));
            self.pages.extend(pages);
        }
        is_free
    }

    /// Adds a page that no reader can find yet. The operation that has just freed the page may hold its claim a moment
    /// longer, so a page can have two claims here.
    pub(crate) fn add_new(&mut self, page: u32) {
        *self.claims.pages.lock().entry(page).or_default() += 1;
        self.pages.push(page);
    }

    /// Releases pages early.
    pub(crate) fn release(&mut self, pages: Range<u32>) {
        let mut claimed = self.claims.pages.lock();
        self.pages.retain(|page| {
            let goes = pages.contains(page);
            if goes {
                release(&mut claimed, *page);
            }
            !goes
        });
    }
}

fn release(claimed: &mut HashMap<u32, u32>, page: u32) {
    if let Entry::Occupied(mut by) = claimed.entry(page) {
        *by.get_mut() -= 1;
        if *by.get() == 0 {
            by.remove();
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.claims.pages.lock();
        self.pages.iter().for_each(|page| release(&mut claimed, *page));
    }
}

#[cfg(test)]
mod tests {
    use super::Claims;

    #[test]
    fn a_page_has_one_claim_at_a_time() {
        let claims = Claims::default();
        let (mut one, mut two) = (claims.claim(), claims.claim());
        assert!(one.try_add(1..2) && one.try_add(2..4) && !two.try_add(3..5) && two.try_add(4..6));
        one.release(2..4);
        assert!(two.try_add(3..4));
        drop(two);
        assert!(claims.is_claimed(1) && (2..6).all(|page| !claims.is_claimed(page)));
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
mod orders {
    use std::sync::Arc;

    use ecotone_sys::primitive::{
        atomic::{AtomicUsize, Ordering},
        loom::{model, thread},
    };

    use super::Claims;

    #[test]
    fn two_who_want_the_same_pages_never_hold_one_both() {
        model(|| {
            let fixture = Arc::new((Claims::default(), [AtomicUsize::new(0), AtomicUsize::new(0)]));
            let work = |fixture: &(Claims, [AtomicUsize; 2]), order: [usize; 2]| {
                let mut claim = fixture.0.claim();
                let held = order.map(|page| claim.try_add(page as u32..page as u32 + 1).then_some(page));
                let inside = |change: &dyn Fn(&AtomicUsize) -> usize| {
                    held.iter()
                        .flatten()
                        .for_each(|page| assert_eq!(change(&fixture.1[*page]) % 2, 0, "page {page} is held by two"))
                };
                inside(&|holders| holders.fetch_add(1, Ordering::Relaxed));
                inside(&|holders| holders.fetch_sub(1, Ordering::Relaxed) + 1);
            };
            let other = thread::spawn({
                let fixture = fixture.clone();
                move || work(&fixture, [1, 0])
            });
            work(&fixture, [0, 1]);
            other.join().unwrap();
            assert!(!fixture.0.is_claimed(0) && !fixture.0.is_claimed(1));
        });
    }
}
