//! The record layout of each keyspace, as far as the engine checkpoint and the log tell it.

use std::collections::BTreeMap;

use ecotone_adaptive::repair::{Known as Ranges, Layout as RangeLayout};
use ecotone_engine::repair::Problems;
use ecotone_hash::repair::{Known as Hashed, Layout as HashLayout};
use ecotone_lsm::repair::{Layout as TableLayout, TablePlacement};
use ecotone_substrate::{Result, environment::Environment, manifest::KeyspaceRecord, storage::FileId};
use ecotone_tree::repair::{IndexedPages, Layout as PageLayout};

use super::{log_survey::LogSurvey, plans::Plan};
use crate::{Engine, config::HASH, core::lazy::first_root};

/// The layout of a keyspace while structural records are replayed.
#[derive(Debug)]
pub(super) enum Layout {
    /// An unwritten keyspace (memory-and-keyspaces.md).
    Unwritten,
    /// `None` if the index is incomplete.
    Pages(Option<PageLayout>),
    Tables(TableLayout),
    Ranges(RangeLayout),
    Hashed(HashLayout),
}

/// The inputs of the salvage of a keyspace.
#[derive(Debug)]
pub(super) enum SalvageInputs {
    /// The keyspace has no files.
    Unwritten,
    Pages(Option<IndexedPages>),
    Tables(TablePlacement),
    Ranges(Ranges),
    Hashed(Hashed),
}

/// The state that replay of structural records starts from.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyspaceStart<'b> {
    /// The environment of the damaged directory; `None` without a manifest.
    pub(super) environment: Option<&'b Environment>,
    pub(super) files: &'b [FileId],
    /// The result of the first pass over the log.
    pub(super) log: &'b LogSurvey,
}

impl KeyspaceStart<'_> {
    /// The layout of a keyspace before the log; `None` if its engine is unknown.
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
            // Nothing is lost without the record: an empty layout is as good.
            (Some(_), _) => Ok(()),
            (None, _) => layout.replay(body, problems),
        }
    }

    /// The inputs of all keyspaces. `is_whole` says that the log has no gap.
    pub(super) fn known(
        &self,
        layouts: BTreeMap<u32, (&Plan, Layout)>,
        is_whole: bool,
        problems: &mut Problems,
    ) -> Result<BTreeMap<u32, SalvageInputs>> {
        let mut known = BTreeMap::new();
        for (id, (plan, layout)) in layouts {
            // The first write may be in a gap of the log.
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
        // For an unlogged keyspace the log does not say up to where the hot log is durable.
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

impl SalvageInputs {
    /// Whether the layout is complete.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            SalvageInputs::Unwritten => true,
            SalvageInputs::Pages(named) => named.is_some(),
            SalvageInputs::Tables(placed) => placed.is_settled(),
            SalvageInputs::Hashed(hashed) => hashed.is_settled(),
            SalvageInputs::Ranges(ranges) => ranges.tables.is_settled() && ranges.pages.is_some(),
        }
    }
}

impl Layout {
    /// Replays a structural record. A record that does not fit is reported, and the layout then counts as incomplete.
    pub(super) fn replay(&mut self, body: &[u8], problems: &mut Problems) -> Result<()> {
        match self {
            // The first record of the keyspace is in a gap of the log, or is missing.
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

    /// The inputs of the salvage. `is_whole` says that the log has no gap.
    fn known(self, is_whole: bool, problems: &mut Problems) -> Result<SalvageInputs> {
        Ok(match self {
            Layout::Unwritten => SalvageInputs::Unwritten,
            Layout::Pages(pages) => {
                let named = pages.filter(|_| is_whole).map(|pages| pages.named());
                SalvageInputs::Pages(named.map_or(Ok(None), |named| problems.survive(named))?)
            }
            Layout::Tables(tables) => SalvageInputs::Tables(tables.placed(is_whole)),
            Layout::Hashed(hashed) => SalvageInputs::Hashed(hashed.known(is_whole)),
            Layout::Ranges(ranges) => SalvageInputs::Ranges(ranges.known(is_whole, problems)?),
        })
    }
}
