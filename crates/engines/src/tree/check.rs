//! A full check of a tree: every page of every segment, against the index and against itself.

use ecotone_substrate::Result;

use super::{
    Tree, merge,
    store::{Located, ascending},
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
        let stored = self.store.read(vec![at.clone()]);
        check.pages += at.segment.pages().count() as u64;
        let mut problem = |what: String| check.problems.push(what);
        let stored = match stored.map(|mut stored| stored.pop()) {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(()),
            Err(error) => return Ok(problem(error.to_string())),
        };
        match self.store.claimed_pages(&stored) {
            Err(error) => problem(error.to_string()),
            Ok((base, overflow)) => {
                for (page, number) in [Some(&base), overflow.as_ref()].into_iter().flatten().zip(at.segment.pages()) {
                    if let Err(error) = page.check() {
                        problem(self.store.file.corruption(number, error.to_string()).to_string());
                    }
                }
                let twice = overflow.as_ref().is_some_and(|second| second.iter().any(|entry| {
                    base.search(&[second.prefix(), entry.suffix].concat()).is_ok()
                }));
                if twice {
                    problem(self.store.file.corruption(at.segment.overflow, "a key of the overflow page is in its base page too").to_string());
                }
                check.records += merge::visible(&base, overflow.as_ref(), &dirty).len() as u64;
            }
        }
        Ok(())
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
