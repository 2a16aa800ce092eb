//! A full check of a tree: every page of every segment is checked against the index and for its own consistency.

use ecotone_engine::contract::Check;
use ecotone_substrate::{Result, page::Page};

use super::{
    Tree,
    dirty::DirtyRecords,
    index::PagePair,
    merge,
    page_allocator::IoPurpose,
    records::Records,
    store::{Pages, SegmentRange, ascending},
};

/// Segments listed for one step of the check.
const WINDOW: usize = 32;

impl Tree {
    /// Reads and checks every segment. Writers run concurrently.
    pub(crate) fn check_all(&self) -> Result<Check> {
        let mut check = Check::default();
        let mut next = Some(Vec::new());
        while let Some(start) = next {
            next = self.check_window(start, &mut check)?;
        }
        Ok(check)
    }

    /// Checks some segments, beginning with the one that holds `start`. Returns the key to continue at.
    fn check_window(&self, start: Vec<u8>, check: &mut Check) -> Result<Option<Vec<u8>>> {
        let mut next = start;
        for at in ascending(&self.store.index.snapshot(), &next, WINDOW) {
            if !self.check_segment(&at, &next, check)? {
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
    fn check_segment(&self, at: &SegmentRange, from: &[u8], check: &mut Check) -> Result<bool> {
        let mut claim = self.store.claims.claim();
        let at = loop {
            if let Some(at) = self.claim_segment(&mut claim, at) {
                break at;
            }
            self.check_live()?;
            if self.store.current(at).is_none() {
                return Ok(false);
            }
            ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
        };
        let dirty: Vec<_> = {
            let _installing = self.store.install.read();
            at.stretches().map(|stretch| self.cache.peek_all(self.space(), &stretch)).collect()
        };
        check.pages += at.segment.all_pages().count() as u64;
        let pairs: Vec<PagePair> = at.segment.page_pairs().collect();
        let checked = self.store.read(&pairs, IoPurpose::Check).and_then(|stored| {
            let pages = self.store.claimed_segment(&at, &stored)?;
            let pairs = pairs.iter().zip(&pages).zip(&dirty);
            Ok(pairs
                .map(|((pair, pages), dirty)| self.count(*pair, pages, dirty, from, &mut check.problems))
                .sum::<u64>())
        });
        match checked {
            Ok(records) => check.records += records,
            Err(error) => check.add_problem(error)?,
        }
        Ok(true)
    }

    /// Counts the records of a page pair from `from` on.
    fn count(
        &self,
        pair: PagePair,
        pages: &Pages<'_>,
        dirty: &DirtyRecords,
        from: &[u8],
        problems: &mut Vec<String>,
    ) -> u64 {
        let (base, overflow) = pages;
        let in_base = |page: &Page<'_>, suffix: &[u8]| base.search(&[page.prefix(), suffix].concat()).is_ok();
        if overflow.is_some_and(|page| page.iter().any(|entry| in_base(&page, entry.suffix))) {
            let what = "a key of the overflow page is in its base page too";
            problems.push(self.store.file.corruption(pair.overflow, what).to_string());
        }
        let mut records = Records::default();
        merge::visible(pages, dirty.iter(), &mut records, |_| ());
        (records.len() - records.lower_bound(from)) as u64
    }
}
