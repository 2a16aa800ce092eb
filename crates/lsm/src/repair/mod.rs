//! Salvage of a keyspace: merges the readable records of its tables, and of the pages below them, into ascending
//! records (repair.md, "Tables").

mod layout;
mod salvage_merge;
mod table_age;

use std::{collections::BTreeSet, fmt};

use ecotone_engine::{
    contract::Record,
    repair::{SalvageReport, key_successor},
};
use ecotone_substrate::{Result, environment::Environment};

pub use crate::repair::layout::{Layout, TablePlacement};
use crate::repair::salvage_merge::{Head, SalvageMerge, Table};

/// An iterator over the newest readable records of one keyspace, in ascending order.
pub struct Salvage<P> {
    placed: TablePlacement,
    sources: SalvageMerge,
    /// The records of pages, which are older than the tables.
    pages: Option<P>,
    /// The next record of the pages.
    page: Option<Record>,
    findings: SalvageReport,
}

impl<P: Iterator<Item = Result<Record>>> Salvage<P> {
    /// Reads the headers of all tables. `pages` gives the records that lie below them. `database` is the identity that
    /// tables must have, if it is known.
    ///
    /// # Errors
    /// `Io` if the directory cannot be listed, `NewerFormat`, `Memory`. Not for damage.
    pub fn begin(
        environment: &Environment,
        database: Option<u64>,
        keyspace: u32,
        placed: TablePlacement,
        pages: Option<P>,
    ) -> Result<Salvage<P>> {
        let mut findings = SalvageReport::default();
        let sources = SalvageMerge::open(environment, database, keyspace, &placed, &mut findings)?;
        let mut salvage = Salvage { placed, sources, pages, page: None, findings };
        salvage.step_pages()?;
        let has_pages = salvage.page.is_some();
        if salvage.placed.is_contradicted || (has_pages && !salvage.placed.is_settled) {
            salvage.findings.problems.add("which of its tables and pages count is not known for certain");
            salvage.findings.doubtful.add((Vec::new(), None));
        }
        Ok(salvage)
    }

    /// The findings in the tables, complete when there are no more records, and the source of the page records.
    pub fn finish(self) -> (SalvageReport, Option<P>) {
        (self.findings, self.pages)
    }

    fn step_pages(&mut self) -> Result<()> {
        self.page = self.pages.as_mut().and_then(Iterator::next).transpose()?;
        Ok(())
    }

    /// The next record that is not deleted.
    fn step(&mut self) -> Result<Option<Record>> {
        loop {
            let below = self.page.as_ref().map(|(key, _)| key.as_slice());
            match self.sources.peek(below, &mut self.findings)? {
                Some(Head::Lost(range)) => self.findings.doubtful.add(range),
                Some(Head::Key(key)) => {
                    let page = if below == Some(key.as_slice()) { self.take_page()? } else { None };
                    if let Some(value) = self.judge(&key, page) {
                        return Ok(Some((key, value)));
                    }
                }
                None => {
                    let Some((key, value)) = self.page.take() else { return Ok(None) };
                    self.step_pages()?;
                    if self.is_visible_in_pages(&key) {
                        return Ok(Some((key, value)));
                    }
                }
            }
        }
    }

    fn take_page(&mut self) -> Result<Option<Vec<u8>>> {
        let page = self.page.take();
        self.step_pages()?;
        Ok(page.map(|(_, value)| value))
    }

    /// The value of a key that some tables have, and perhaps a page. Advances all tables that have the key.
    fn judge(&mut self, key: &[u8], page: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let group = self.sources.take(key);
        let newest = self.visible_tables(key, &group).max_by(|a, b| a.standing.likely(&b.standing));
        let value = match newest {
            Some(newest) => newest.value().map(<[u8]>::to_vec),
            None => page.filter(|_| self.is_visible_in_pages(key)),
        };
        if newest.is_some_and(|newest| !self.placed.is_settled && self.is_doubtful(key, &group, newest)) {
            self.findings.doubtful.add((key.to_vec(), Some(key_successor(key))));
        }
        self.sources.advance(&group, &mut self.findings);
        value
    }

    /// The tables of a group in which the key is visible.
    fn visible_tables<'s>(&'s self, key: &[u8], group: &'s BTreeSet<usize>) -> impl Iterator<Item = &'s Table> {
        let visibility = self.placed.paged_ranges.visibility_at(key);
        let is_visible = move |run_id| visibility.is_visible(run_id);
        self.sources.tables(group).filter(move |table| table.standing.run_id.is_none_or(is_visible))
    }

    /// Whether another table may have a newer record of the key, or may lack the key because it was deleted.
    fn is_doubtful(&self, key: &[u8], group: &BTreeSet<usize>, newest: &Table) -> bool {
        let is_certain = |other: &Table| newest.standing.certain(&other.standing).is_some();
        let may_be_newer = |other: &Table| !is_certain(other) && other.value() != newest.value();
        let may_be_deleted = |other: &Table| !is_certain(other) && other.standing.may_replace(&newest.standing);
        let is_lacking = newest.value().is_some() && self.sources.lacking(group).any(may_be_deleted);
        is_lacking || self.visible_tables(key, group).any(may_be_newer)
    }

    /// Whether page records of a key are visible: those in paged ranges are. If the layout is not settled, all are.
    fn is_visible_in_pages(&self, key: &[u8]) -> bool {
        self.placed.paged_ranges.visibility_at(key).has_pages || !self.placed.is_settled
    }
}

impl<P: Iterator<Item = Result<Record>>> Iterator for Salvage<P> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.step().transpose()
    }
}

impl<P> fmt::Debug for Salvage<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage").field("findings", &self.findings).finish_non_exhaustive()
    }
}
