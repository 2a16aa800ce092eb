//! A full check of a tree: every page of every segment, against the index and against itself.

use ecotone_substrate::{Result, page::Page};

use super::{
    Tree,
    cache::DirtyRecord,
    merge,
    store::{Located, Stored, ascending},
};
use crate::engine::Check;

/// Segments that are checked at once.
const WINDOW: usize = 32;

impl Tree {
    /// Reads and checks every segment. Writers go on meanwhile.
    pub(crate) fn check_all(&self) -> Result<Check> {
        let mut check = Check::default();
        let mut from = Some(Vec::new());
        while let Some(lower) = from {
            let segments = ascending(&self.store.index.snapshot(), &lower, WINDOW);
            from = segments.last().and_then(|at| at.upper.clone());
            for at in segments {
                self.check_segment(&at, &mut check)?;
            }
        }
        Ok(check)
    }

    /// Checks the range of one segment: under a claim, so that a page that fails is damaged and not being written.
    fn check_segment(&self, at: &Located, check: &mut Check) -> Result<()> {
        let mut claim = self.store.claims.claim();
        while !self.claim_current(&mut claim, at) {
            if !self.store.is_current(at) {
                return self.check_replaced(at, check);
            }
            self.check_live()?;
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let dirty = {
            let _installing = self.store.install.read();
            self.cache.peek_dirty(self.number, at.segment.page)
        };
        check.pages += at.segment.pages().count() as u64;
        let stored = self.store.read(vec![at.clone()]).map(|mut stored| stored.pop());
        match stored.and_then(|stored| stored.map_or(Ok(0), |stored| self.check_stored(&stored, &dirty, &mut check.problems))) {
            Ok(records) => check.records += records,
            Err(error) => check.problems.push(error.to_string()),
        }
        Ok(())
    }

    /// Checks the pages of a claimed segment; gives the number of its records.
    fn check_stored(&self, stored: &Stored, dirty: &[DirtyRecord], problems: &mut Vec<String>) -> Result<u64> {
        let (base, overflow) = self.store.claimed_pages(stored)?;
        let segment = stored.at.segment;
        let in_base = |page: &Page<'_>, suffix: &[u8]| base.search(&[page.prefix(), suffix].concat()).is_ok();
        if overflow.is_some_and(|page| page.iter().any(|entry| in_base(&page, entry.suffix))) {
            let what = "a key of the overflow page is in its base page too";
            problems.push(self.store.file.corruption(segment.overflow, what).to_string());
        }
        Ok(merge::visible(&base, overflow.as_ref(), dirty).len() as u64)
    }

    /// The segment was reorganised since it was listed: checks what stands in its range now.
    fn check_replaced(&self, at: &Located, check: &mut Check) -> Result<()> {
        let mut from = Some(at.lower.clone());
        while let Some(lower) = from.filter(|lower| at.upper.as_ref().is_none_or(|upper| lower < upper)) {
            let now = self.store.locate(&lower);
            self.check_segment(&now, check)?;
            from = now.upper;
        }
        Ok(())
    }
}
