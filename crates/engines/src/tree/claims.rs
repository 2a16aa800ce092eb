//! Claims on base pages: one background operation at a time works on a segment (decision 2, invariants 6 and 8).

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

use ecotone_substrate::held::{self, Held, Kind};
use ecotone_sys::primitive::Mutex;

/// The base pages that are claimed, and by how many. A claim is only ever tried: whoever fails does something else or
/// comes back.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pages: Mutex<HashMap<u32, u32>>,
}

/// Claimed pages; dropping it releases them.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    pages: Vec<u32>,
    _held: Held,
}

impl Claims {
    /// An empty claim, to be extended.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim { claims: self, pages: Vec::new(), _held: held::hold(Kind::Claims) }
    }

    /// Whether somebody holds `page`.
    pub(crate) fn is_claimed(&self, page: u32) -> bool {
        self.pages.lock().contains_key(&page)
    }
}

impl Claim<'_> {
    /// Adds pages; false, and none of them, if one is claimed already, also by this claim.
    pub(crate) fn try_add(&mut self, pages: Range<u32>) -> bool {
        let mut claimed = self.claims.pages.lock();
        let is_free = pages.clone().all(|page| !claimed.contains_key(&page));
        if is_free {
            claimed.extend(pages.clone().map(|page| (page, 1)));
            self.pages.extend(pages);
        }
        is_free
    }

    /// Adds a page that nobody can find yet. Whoever has just given it back may hold his claim for a moment.
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
            let world = Arc::new((Claims::default(), [AtomicUsize::new(0), AtomicUsize::new(0)]));
            let work = |world: &(Claims, [AtomicUsize; 2]), order: [usize; 2]| {
                let mut claim = world.0.claim();
                let held = order.map(|page| claim.try_add(page as u32..page as u32 + 1).then_some(page));
                let inside = |change: &dyn Fn(&AtomicUsize) -> usize| {
                    held.iter()
                        .flatten()
                        .for_each(|page| assert_eq!(change(&world.1[*page]) % 2, 0, "page {page} is held by two"))
                };
                inside(&|holders| holders.fetch_add(1, Ordering::Relaxed));
                inside(&|holders| holders.fetch_sub(1, Ordering::Relaxed) + 1);
            };
            let other = thread::spawn({
                let world = world.clone();
                move || work(&world, [1, 0])
            });
            work(&world, [0, 1]);
            other.join().unwrap();
            assert!(!world.0.is_claimed(0) && !world.0.is_claimed(1));
        });
    }
}
