//! A full check of a tree: every page of every segment is checked against the index and for its own consistency.

use ecotone_engine::contract::Check;
use ecotone_substrate::{Result, page::Page};

use super::{
    dirty::DirtyRecords,
    index::PagePair,
    keyspace_cache::KeyspaceCache,
    merge,
    page_allocator::IoPurpose,
    records::Records,
    store::{Pages, SegmentRange, Store, ascending},
};

/// Segments listed for one step of the check.
const WINDOW: usize = 32;

/// Reads and checks every segment. Writers run concurrently.
pub(crate) fn check_all(store: &Store, cache: &KeyspaceCache) -> Result<Check> {
    let mut checker = Checker { store, cache, check: Check::default() };
    let mut next = Some(Vec::new());
    while let Some(start) = next {
        next = checker.check_window(start)?;
    }
    Ok(checker.check)
}

/// A check in progress, with its results.
struct Checker<'t> {
    store: &'t Store,
    cache: &'t KeyspaceCache,
    check: Check,
}

impl Checker<'_> {
    /// Checks some segments, beginning with the one that holds `start`. Returns the key to continue at.
    fn check_window(&mut self, start: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let mut next = start;
        for at in ascending(&self.store.index.snapshot(), &next, WINDOW) {
            if !self.check_segment(&at, &next)? {
                // The segment was reorganised after it was listed.
                return Ok(Some(next));
            }
            let Some(upper) = at.upper else { return Ok(None) };
            next = upper;
        }
        Ok(Some(next))
    }

    /// Checks one segment under a claim, so that a page that fails is damaged and not being written. Counts the records
    /// from `from` on; records below `from` may have been counted with another segment. Returns false if the index no
    /// longer has this segment.
    fn check_segment(&mut self, at: &SegmentRange, from: &[u8]) -> Result<bool> {
        let mut claim = self.store.claims.claim();
        let at = loop {
            if let Some(at) = self.store.claim_segment(&mut claim, at) {
                break at;
            }
            self.cache.check_live()?;
            if self.store.current(at).is_none() {
                return Ok(false);
            }
            ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
        };
        let dirty: Vec<_> = {
            let _installing = self.store.install.read();
            at.key_spans().map(|span| self.cache.peek_all(&span)).collect()
        };
        self.check.pages += at.segment.all_pages().count() as u64;
        let pairs: Vec<PagePair> = at.segment.page_pairs().collect();
        let checked = self.store.read(&pairs, IoPurpose::Check).and_then(|stored| {
            let pages = self.store.claimed_segment(&at, &stored)?;
            let pairs = pairs.iter().zip(&pages).zip(&dirty);
            Ok(pairs.map(|((pair, pages), dirty)| self.count(*pair, pages, dirty, from)).sum::<u64>())
        });
        match checked {
            Ok(records) => self.check.records += records,
            Err(error) => self.check.add_problem(error)?,
        }
        Ok(true)
    }

    /// Counts the records of a page pair from `from` on.
    fn count(&mut self, pair: PagePair, pages: &Pages<'_>, dirty: &DirtyRecords, from: &[u8]) -> u64 {
        let (base, overflow) = pages;
        let in_base = |page: &Page<'_>, suffix: &[u8]| base.search(&[page.prefix(), suffix].concat()).is_ok();
        if overflow.is_some_and(|page| page.iter().any(|entry| in_base(&page, entry.suffix))) {
            let what = "a key of the overflow page is in its base page too";
            self.check.problems.push(self.store.file.corruption(pair.overflow, what).to_string());
        }
        let mut records = Records::default();
        merge::visible(pages, dirty.iter(), &mut records, |_| ());
        (records.len() - records.lower_bound(from)) as u64
    }
}
