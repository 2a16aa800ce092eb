//! The bytes of a file as copy-on-write pages, so that an image of a disk costs a few reference counts.

use std::sync::{Arc, LazyLock};

use ecotone_substrate::limits::PAGE;

/// The bytes of one page.
pub(super) type Page = [u8; PAGE];

/// A page that was never written.
pub(super) static ZERO: Page = [0; PAGE];

/// The page; a page of zeros is shared, because files mostly consist of such pages.
pub(super) fn shared(page: &Page) -> Arc<Page> {
    static SHARED: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new(ZERO));
    if *page == ZERO { SHARED.clone() } else { Arc::new(*page) }
}

/// Pages in one shared chunk of the page table.
const FAN: usize = 64;

type Leaf = [Option<Arc<Page>>; FAN];

/// A sparse array of pages; holes read as zero.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages {
    leaves: Vec<Option<Arc<Leaf>>>,
}

impl Pages {
    pub(super) fn get(&self, number: u64) -> Option<&Arc<Page>> {
        let (leaf, slot) = place(number);
        self.leaves.get(leaf)?.as_ref()?[slot].as_ref()
    }

    /// Stores a page; one of zeros becomes a hole.
    pub(super) fn set(&mut self, number: u64, page: Arc<Page>) {
        let (leaf, slot) = place(number);
        let page = Some(page).filter(|page| **page != ZERO);
        if page.is_none() && self.get(number).is_none() {
            return;
        }
        if self.leaves.len() <= leaf {
            self.leaves.resize(leaf + 1, None);
        }
        let leaf = self.leaves[leaf].get_or_insert_with(|| Arc::new([const { None }; FAN]));
        Arc::make_mut(leaf)[slot] = page;
    }

    /// Forgets everything from byte `length` on.
    pub(super) fn cut(&mut self, length: u64) {
        let whole = length / PAGE as u64;
        let rest = (length % PAGE as u64) as usize;
        if let Some(page) = self.get(whole).filter(|_| rest > 0) {
            let mut page = page.clone();
            Arc::make_mut(&mut page)[rest..].fill(0);
            self.set(whole, page);
        }
        let first = length.div_ceil(PAGE as u64);
        let (leaf, slot) = place(first);
        self.leaves.truncate(leaf + usize::from(slot > 0));
        if let Some(Some(last)) = self.leaves.get_mut(leaf).filter(|_| slot > 0)
            && last[slot..].iter().any(Option::is_some)
        {
            Arc::make_mut(last)[slot..].fill(None);
        }
    }

    /// Numbers of the pages at or above `first` that are not holes.
    pub(super) fn numbers_from(&self, first: u64) -> Vec<u64> {
        let end = (self.leaves.len() * FAN) as u64;
        (first..end).filter(|number| self.get(*number).is_some()).collect()
    }
}

fn place(number: u64) -> (usize, usize) {
    let number = usize::try_from(number).expect("a simulated file fits into memory");
    (number / FAN, number % FAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> Arc<Page> {
        Arc::new([byte; PAGE])
    }

    #[test]
    fn copies_do_not_see_each_other() {
        let mut original = Pages::default();
        (0..200).for_each(|number| original.set(number, page(1)));
        let mut copy = original.clone();
        copy.set(70, page(2));
        original.set(130, page(3));
        let first = |pages: &Pages, number| pages.get(number).map(|page| page[0]);
        assert_eq!((first(&original, 70), first(&copy, 70)), (Some(1), Some(2)));
        assert_eq!((first(&original, 130), first(&copy, 130)), (Some(3), Some(1)));
        let shared = original.leaves.iter().zip(&copy.leaves).filter(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        });
        assert_eq!(shared.count(), 2, "two of four leaves were not touched");
    }

    #[test]
    fn cut_forgets_all_that_lies_behind() {
        for length in [0, 1, 4096, 4097, 64 * 4096, 64 * 4096 + 5, 100 * 4096, 199 * 4096 + 4095, 1 << 30] {
            let mut pages = Pages::default();
            (0..200).for_each(|number| pages.set(number, page(9)));
            pages.cut(length);
            let bytes = (0..200).flat_map(|number| pages.get(number).map_or(ZERO, |page| **page));
            let kept = bytes.enumerate().filter(|(at, byte)| (*byte == 9) != ((*at as u64) < length)).count();
            assert_eq!(kept, 0, "cut at {length}");
        }
    }

    #[test]
    fn zeros_are_holes() {
        let mut pages = Pages::default();
        pages.set(5, page(1));
        pages.set(5, page(0));
        pages.set(6, page(0));
        assert_eq!(pages.numbers_from(0), Vec::<u64>::new());
    }
}
