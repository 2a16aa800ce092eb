//! A sorted run of the append-only engine: a table that is written once.

use ecotone_engine::contract::Context;
use ecotone_substrate::{
    Result,
    storage::{Block, FileId},
};

use super::pages::{Pages, Stored, push};

/// A sorted run: the pages of its table, in order.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) number: u32,
    pub(super) pages: Pages,
    /// The smallest key of each page.
    pub(super) lowers: Vec<Vec<u8>>,
}

impl Run {
    /// The table's name.
    pub(super) fn file(context: &Context, number: u32) -> FileId {
        FileId::Table { keyspace: context.keyspace, number }
    }

    /// Writes a run of these records, and syncs it with its name.
    pub(super) fn write(context: &Context, number: u32, records: &[Stored]) -> Result<Run> {
        let shared = &context.shared;
        shared.health.check()?;
        let created = Pages::create(context, Run::file(context, number));
        let pages = created.map_err(|error| shared.health.poison(error))?;
        let mut parts = split(&pages, records)?;
        pages.reserve(u32::try_from(parts.len()).expect("a tiny run is small"))?;
        let fresh = build(&pages, &mut parts)?;
        pages.write_fresh(&fresh)?;
        shared.storage.sync_dir().map_err(|error| shared.health.poison(error))?;
        Ok(Run { number, lowers: parts.into_iter().map(|(lower, _)| lower).collect(), pages })
    }

    /// Opens the run and reads the fences of its pages.
    pub(super) fn open(context: &Context, number: u32) -> Result<Run> {
        let pages = Pages::open(context, Run::file(context, number))?;
        let lower = |page| Ok(pages.parse(page, &pages.read(page)?)?.lower().to_vec());
        let lowers = (0..pages.count()?).map(lower).collect::<Result<_>>()?;
        Ok(Run { number, pages, lowers })
    }

    /// The page that may hold `key`, if there is one.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        let after = self.lowers.partition_point(|lower| lower.as_slice() <= key);
        u32::try_from(after.checked_sub(1)?).ok()
    }
}

/// The records of one page, and the smallest key among them.
type RunPage<'a> = (Vec<u8>, &'a [Stored]);

/// Splits the records into as many parts as pages are needed.
fn split<'a>(pages: &Pages, mut records: &'a [Stored]) -> Result<Vec<RunPage<'a>>> {
    let (mut parts, mut scratch) = (Vec::new(), pages.frame()?);
    while let Some((lower, _)) = records.first() {
        let mut builder = pages.build(&mut scratch, 0, (lower, None));
        let fit = records.iter().take_while(|record| push(&mut builder, record)).count();
        let (part, rest) = records.split_at(fit);
        parts.push((lower.clone(), part));
        records = rest;
    }
    Ok(parts)
}

fn build(pages: &Pages, parts: &mut [RunPage<'_>]) -> Result<Vec<(u32, Block)>> {
    let page = |((lower, records), number): (&mut RunPage<'_>, u32)| {
        let mut block = pages.frame()?;
        let mut builder = pages.build(&mut block, number, (lower, None));
        assert!(records.iter().all(|record| push(&mut builder, record)), "they fitted when they were split");
        builder.finish(1);
        Ok((number, block))
    };
    parts.iter_mut().zip(0..).map(page).collect()
}
