//! A full check of a tree: every page of every segment, against the index and against itself.

use ecotone_substrate::{Result, page::Page};

use super::{
    Tree,
    cache::DirtyRecord,
    merge,
    records::Records,
    space::Cause,
    store::{Located, Stored, ascending},
};
use crate::engine::Check;

/// Segments that are checked at once.
const WINDOW: usize = 32;

impl Tree {
    /// Reads and checks every segment. Writers go on meanwhile.
    pub(crate) fn check_all(&self) -> Result<Check> {
        let mut check = Check::default();
        let mut next = Some(Vec::new());
        while let Some(start) = next {
            next = self.check_window(start, &mut check)?;
        }
        Ok(check)
    }

    /// Checks some segments from the one that `start` belongs to; gives where to go on.
    fn check_window(&self, start: Vec<u8>, check: &mut Check) -> Result<Option<Vec<u8>>> {
        let mut next = start;
        for at in ascending(&self.store.index.snapshot(), &next, WINDOW) {
            if !self.check_segment(&at, &next, check)? {
                // It was reorganised since it was listed.
                return Ok(Some(next));
            }
            let Some(upper) = at.upper else { return Ok(None) };
            next = upper;
        }
        Ok(Some(next))
    }

    /// Checks one segment, under a claim, so that a page that fails is damaged and not being written. Counts the records from `from` on, since what lies before
    /// may have been counted as another segment's. False if the index has moved on.
    fn check_segment(&self, at: &Located, from: &[u8], check: &mut Check) -> Result<bool> {
        let mut claim = self.store.claims.claim();
        while !self.claim_current(&mut claim, at) {
            self.check_live()?;
            if !self.store.is_current(at) {
                return Ok(false);
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let dirty = {
            let _installing = self.store.install.read();
            self.cache.peek_dirty(self.number, at.segment.page)
        };
        check.pages += at.segment.pages().count() as u64;
        let stored = self.store.read(vec![at.clone()], Cause::Check).map(|mut stored| stored.pop());
        let checked =
            stored.and_then(|stored| stored.map(|stored| self.check_stored(&stored, &dirty, &mut check.problems)).transpose());
        match checked {
            Ok(records) => check.records += records.map_or(0, |records| records.len() - records.lower_bound(from)) as u64,
            Err(error) => check.problems.push(error.to_string()),
        }
        Ok(true)
    }

    /// Checks the pages of a claimed segment; gives its records.
    fn check_stored(&self, stored: &Stored, dirty: &[DirtyRecord], problems: &mut Vec<String>) -> Result<Records> {
        let (base, overflow) = self.store.claimed_pages(stored)?;
        let segment = stored.at.segment;
        let in_base = |page: &Page<'_>, suffix: &[u8]| base.search(&[page.prefix(), suffix].concat()).is_ok();
        if overflow.is_some_and(|page| page.iter().any(|entry| in_base(&page, entry.suffix))) {
            let what = "a key of the overflow page is in its base page too";
            problems.push(self.store.file.corruption(segment.overflow, what).to_string());
        }
        Ok(merge::visible(&base, overflow.as_ref(), dirty))
    }
}
