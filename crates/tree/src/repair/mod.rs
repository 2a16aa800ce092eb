//! Salvages the readable records of a page file whose index or pages may be damaged, in ascending order (T18,
//! `docs/decisions/0007-repair.md`).
//!
//! There are two passes. The first reads every page and sorts their [`outline`]s, the key ranges and ages that the
//! pages' headers give, by lower fence. Then a [`sweep`] over the key space assigns each range to a page, and the
//! second pass reads these pages in key order.

mod layout;
mod outline;
mod pages;
mod sorter;
mod sweep;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, fmt};

use ecotone_engine::{
    contract::Record,
    repair::{SalvageReport, SalvageSource},
};
use ecotone_substrate::{
    Result,
    page::{Page, PageKind, RecordKind},
    storage::Block,
};

pub use self::layout::{IndexedPages, Layout};
use self::{
    outline::{Outline, Role},
    pages::{PageVerdict, Pages},
    sorter::Sorter,
    sweep::{CoveredRange, Sweep},
};

/// Ranges of the key space whose pages are read at once.
const WINDOW: usize = 32;

/// An iterator over the readable records of one keyspace, in ascending order.
pub struct Salvage {
    pages: Pages,
    sweep: Sweep,
    named: Option<IndexedPages>,
    ready: VecDeque<Record>,
    findings: SalvageReport,
}

impl Salvage {
    /// Reads all pages of a keyspace's file once. `named` are the pages of an intact index; without an index the pages
    /// are judged by their headers. `progress` is called with numbers of pages.
    ///
    /// # Errors
    /// `Io` if there is no such file, `NewerFormat`, `Memory`, and the errors of writing a scratch file. Damage is no
    /// error.
    pub fn begin(
        source: &SalvageSource,
        keyspace: u32,
        named: Option<IndexedPages>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let pages = Pages::open(source, keyspace)?;
        let mut sorter = Sorter::new(source);
        let mut findings = SalvageReport::default();
        pages.each(&mut |number, bytes| {
            progress(1);
            let look = bytes.map_or(Ok(PageVerdict::Damaged(None)), |bytes| pages.look(number, bytes))?;
            let outline = OutlineCollector { named: named.as_ref(), findings: &mut findings }.outline(number, &look);
            outline.map_or(Ok(()), |outline| sorter.push(&outline))
        })?;
        let sweep = Sweep::new(sorter.finish()?, named.is_some());
        Ok(Salvage { pages, sweep, named, ready: VecDeque::new(), findings })
    }

    /// The report of the salvage. It is complete when there are no more records.
    pub fn findings(self) -> SalvageReport {
        self.findings
    }

    /// Reads the records of the next ranges; false at the end.
    fn fill(&mut self) -> Result<bool> {
        let mut pieces = Vec::new();
        while pieces.len() < WINDOW {
            let Some(piece) = self.sweep.next().transpose()? else { break };
            if piece.page.is_none() {
                self.findings.missing.add(piece.range);
            } else {
                pieces.push(piece);
            }
        }
        let wanted: Vec<(u32, Option<u32>)> = pieces.iter().map(|piece| self.pages_of(piece)).collect();
        let numbers: Vec<u32> = wanted.iter().flat_map(|(base, overflow)| [Some(*base), *overflow]).flatten().collect();
        let mut blocks = self.pages.read(&numbers)?.into_iter();
        for (piece, (_, overflow)) in pieces.iter().zip(wanted) {
            let base = blocks.next().flatten();
            let overflow = overflow.and_then(|_| blocks.next().flatten());
            self.take(piece, base, overflow)?;
        }
        Ok(!pieces.is_empty())
    }

    /// Base and overflow page of a range.
    fn pages_of(&self, piece: &CoveredRange) -> (u32, Option<u32>) {
        let base = piece.page.as_ref().map_or(0, |outline| outline.page);
        (base, piece.overflow)
    }

    /// Takes the records of one range, or reports it as missing or doubtful.
    fn take(&mut self, piece: &CoveredRange, base: Option<Block>, overflow: Option<Block>) -> Result<()> {
        let (Some(outline), Some(mut base)) = (&piece.page, base) else {
            self.findings.missing.add(piece.range.clone());
            return Ok(());
        };
        let PageVerdict::Whole(base) = self.pages.look(outline.page, &mut base)? else {
            self.findings.missing.add(piece.range.clone());
            return Ok(());
        };
        let mut doubtful = piece.doubtful;
        let mut records = records_of(&base);
        if let Some(number) = piece.overflow {
            let mut block = overflow;
            let look = block.as_mut().map(|block| self.pages.look(number, block)).transpose()?;
            match look {
                Some(PageVerdict::Whole(page))
                    if page.kind() == PageKind::Overflow && page.related() == outline.page =>
                {
                    let extra = records_of(&page);
                    let shared = extra.iter().any(|(key, _)| base.search(key).is_ok());
                    // A shared key means that the overflow page is stale: its records were moved into the base page
                    // since.
                    if !shared || self.named.is_some() {
                        merge(&mut records, extra);
                    }
                    doubtful |= shared && self.named.is_some();
                }
                _ => doubtful = true,
            }
        }
        let (start, end) = &piece.range;
        records.retain(|(key, _)| key >= start && end.as_ref().is_none_or(|end| key < end));
        self.ready.extend(records);
        if doubtful {
            self.findings.doubtful.add(piece.range.clone());
        }
        Ok(())
    }
}

impl Iterator for Salvage {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        while self.ready.is_empty() {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage").field("findings", &self.findings).finish_non_exhaustive()
    }
}

/// Collects the outlines of pages that describe a key range, and counts pages and damage.
struct OutlineCollector<'a> {
    named: Option<&'a IndexedPages>,
    findings: &'a mut SalvageReport,
}

impl OutlineCollector<'_> {
    fn outline(&mut self, number: u32, look: &PageVerdict<'_>) -> Option<Outline> {
        let named = self.named.and_then(|named| named.base(number));
        let (page, role) = match look {
            PageVerdict::Blank => return None,
            PageVerdict::Whole(page) => (Some(page), role_of(page.kind())),
            PageVerdict::Damaged(page) => {
                // With an intact index it is known which pages are in use.
                let counts = self.named.is_none_or(|named| named.uses(number));
                self.findings.damaged += u64::from(counts);
                (page.as_ref(), Some(Role::Lost))
            }
        };
        self.findings.pages += 1;
        let (page, role) = (page?, role?);
        let mut outline = Outline::of(page, number, role);
        outline.named = named.is_some();
        outline.expects = named.flatten();
        (role != Role::Lost || page.kind() == PageKind::Base).then_some(outline)
    }
}

fn role_of(kind: PageKind) -> Option<Role> {
    match kind {
        PageKind::Base => Some(Role::Base),
        PageKind::Overflow => Some(Role::Overflow),
        _ => None,
    }
}

/// The records of a page.
fn records_of(page: &Page<'_>) -> Vec<Record> {
    let values = page.iter().filter(|entry| entry.kind == RecordKind::Value);
    values.map(|entry| ([page.prefix(), entry.suffix].concat(), entry.value.to_vec())).collect()
}

/// Merges records. For a key in both, the record of `records` stays.
fn merge(records: &mut Vec<Record>, extra: Vec<Record>) {
    records.extend(extra);
    // The sort is stable.
    records.sort_by(|(a, _), (b, _)| a.cmp(b));
    records.dedup_by(|(later, _), (first, _)| later == first);
}
