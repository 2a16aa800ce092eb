//! What root and log tell of where the records of each keyspace are.

use std::collections::BTreeMap;

use ecotone_engines::{
    adaptive::repair::{Known as Ranges, Layout as RangeLayout},
    hash::repair::{Known as Hashed, Layout as HashLayout},
    lsm::repair::{Layout as TableLayout, Placed},
    repair::Problems,
    tree::repair::{Layout as PageLayout, Named},
};
use ecotone_substrate::{Result, environment::Environment, manifest::KeyspaceRecord, storage::FileId};

use super::{
    LogSurvey,
    plans::{HASH, Plan},
};
use crate::{Engine, lazy::first_root};

/// Where the records of a keyspace are while structural records are replayed.
#[derive(Debug)]
pub(super) enum Layout {
    /// That of a keyspace that nothing was written to (decision 18).
    Unwritten,
    /// `None` if the index is not whole.
    Pages(Option<PageLayout>),
    Tables(TableLayout),
    Ranges(RangeLayout),
    Hashed(HashLayout),
}

/// Where the records of a keyspace are, as far as that is known.
#[derive(Debug)]
pub(super) enum Known {
    /// It has no files.
    Unwritten,
    Pages(Option<Named>),
    Tables(Placed),
    Ranges(Ranges),
    Hashed(Hashed),
}

/// What a keyspace begins with, before structural records are replayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning<'b> {
    /// The damaged directory; `None` without a manifest.
    pub(super) environment: Option<&'b Environment>,
    pub(super) files: &'b [FileId],
    /// What a first look at the log told.
    pub(super) log: &'b LogSurvey,
}

impl Beginning<'_> {
    /// Where the records of a keyspace are before the log; `None` if its engine is not known.
    pub(super) fn layout(&self, plan: &Plan, problems: &mut Problems) -> Result<Option<Layout>> {
        let layout = match self.environment.filter(|_| plan.is_known) {
            Some(_) if plan.record.unwritten => Some(Layout::Unwritten),
            Some(environment) => self.with_root(environment, &plan.record, problems)?,
            None => None,
        };
        Ok(layout.or_else(|| self.without_root(plan)))
    }

    /// Replays a structural record.
    pub(super) fn replay(&self, plan: &Plan, layout: &mut Layout, body: &[u8], problems: &mut Problems) -> Result<()> {
        match (first_root(body), self.environment) {
            (Some(root), Some(environment)) if plan.record.unwritten => {
                let record = KeyspaceRecord { blob: root.to_vec(), ..plan.record.clone() };
                *layout = self
                    .with_root(environment, &record, problems)?
                    .or_else(|| self.without_root(plan))
                    .unwrap_or(Layout::Unwritten);
                Ok(())
            }
            // What is known without it is as much as an empty keyspace has.
            (Some(_), _) => Ok(()),
            (None, _) => layout.replay(body, problems),
        }
    }

    /// Where the records of all keyspaces are. `is_whole` says that no record of the log is missing.
    pub(super) fn known(
        &self,
        layouts: BTreeMap<u32, (&Plan, Layout)>,
        is_whole: bool,
        problems: &mut Problems,
    ) -> Result<BTreeMap<u32, Known>> {
        let mut known = BTreeMap::new();
        for (id, (plan, layout)) in layouts {
            // Its first write may be in a gap of the log.
            let is_sure = is_whole || !matches!(layout, Layout::Unwritten);
            let layout = if is_sure { Some(layout) } else { self.without_root(plan) };
            if let Some(layout) = layout {
                known.insert(id, layout.known(is_whole, problems)?);
            }
        }
        Ok(known)
    }

    fn with_root(
        &self,
        environment: &Environment,
        record: &KeyspaceRecord,
        problems: &mut Problems,
    ) -> Result<Option<Layout>> {
        if record.engine == Engine::Lsm.name() {
            return Ok(problems.survive(TableLayout::open(record.id, &record.blob))?.map(Layout::Tables));
        }
        if record.engine == Engine::Adaptive.name() {
            let layout = RangeLayout::open(environment, record.id, &record.blob, problems);
            return Ok(problems.survive(layout)?.map(Layout::Ranges));
        }
        if record.engine == HASH {
            return Ok(problems.survive(HashLayout::open(record.id, &record.blob))?.map(Layout::Hashed));
        }
        if record.engine == Engine::Tree.name() && self.files.contains(&FileId::Pages(record.id)) {
            let layout = problems.survive(PageLayout::open(environment, record.id, &record.blob))?;
            return Ok(Some(Layout::Pages(layout)));
        }
        Ok(None)
    }

    fn without_root(&self, plan: &Plan) -> Option<Layout> {
        let has_all = self.log.has_all && self.environment.is_none();
        // Of an unlogged one the log does not tell up to where the hot log is durable.
        let is_logged = self.log.keyspaces.contains(&plan.record.id);
        match plan.record.engine.as_str() {
            "tree" => Some(Layout::Pages(None)),
            "lsm" => Some(Layout::Tables(if has_all { TableLayout::empty() } else { TableLayout::unknown() })),
            "adaptive" => Some(Layout::Ranges(if has_all { RangeLayout::empty() } else { RangeLayout::unknown() })),
            HASH => {
                Some(Layout::Hashed(if has_all && is_logged { HashLayout::empty() } else { HashLayout::unknown() }))
            }
            _ => None,
        }
    }
}

impl Known {
    /// Whether root and log tell all.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Known::Unwritten => true,
            Known::Pages(named) => named.is_some(),
            Known::Tables(placed) => placed.is_settled(),
            Known::Hashed(hashed) => hashed.is_settled(),
            Known::Ranges(ranges) => ranges.tables.is_settled() && ranges.pages.is_some(),
        }
    }
}

impl Layout {
    /// Replays a structural record. What does not fit is told, and leaves the layout as one that is not known to be
    /// whole.
    pub(super) fn replay(&mut self, body: &[u8], problems: &mut Problems) -> Result<()> {
        match self {
            // The record that it begins with is in a gap, or none.
            Layout::Unwritten => problems.add("the first record of a keyspace is missing"),
            Layout::Pages(pages) => {
                if let Some(layout) = pages.take() {
                    *pages = problems.survive(layout.replay(body).map(|()| layout))?;
                }
            }
            Layout::Tables(tables) => _ = problems.survive(tables.replay(body))?,
            Layout::Hashed(hashed) => _ = problems.survive(hashed.replay(body))?,
            Layout::Ranges(ranges) => _ = problems.survive(ranges.replay(body))?,
        }
        Ok(())
    }

    /// Where the records are. `is_whole` says that no record of the log is missing.
    fn known(self, is_whole: bool, problems: &mut Problems) -> Result<Known> {
        Ok(match self {
            Layout::Unwritten => Known::Unwritten,
            Layout::Pages(pages) => {
                let named = pages.filter(|_| is_whole).map(|pages| pages.named());
                Known::Pages(named.map_or(Ok(None), |named| problems.survive(named))?)
            }
            Layout::Tables(tables) => Known::Tables(tables.placed(is_whole)),
            Layout::Hashed(hashed) => Known::Hashed(hashed.known(is_whole)),
            Layout::Ranges(ranges) => Known::Ranges(ranges.known(is_whole, problems)?),
        })
    }
}
