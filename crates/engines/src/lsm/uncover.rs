//! Bringing what is below the tables of a range back into these (decision 14, "Going back"; decision 15, invariants 10,
//! 13 and 15): piece by piece.

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::{Result, memory::Component, table::File};

use super::{
    base::{Base, Based},
    clearing::Span,
    compact::{cuts::Cuts, drops::Drops, job::mean},
    handle::Handle,
    records::Lsm,
    structure::{Become, Change, CoverEdit, Place},
    version::{Ranged, Run, Version},
};
use crate::rest::{Direction, Rest};

/// Where it comes to: no place is older.
const LAST: Place = Place::Level(1);

impl Lsm {
    /// Has nothing below the tables of what is covered of a range, rounded outward. What was there goes when nobody
    /// reads it any more.
    pub(crate) fn uncover(self: &Arc<Self>, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while *from < *upper {
            from = self.uncover_next(&from, upper, || ())?;
        }
        let turn = self.compacting.lock();
        let cleared = self.clear_uncovered();
        self.end_turn(turn);
        cleared
    }

    /// Uncovers the first piece of what is covered of a range, with a turn of its own, and tells when it has that.
    /// Gives where it ends. Its pages are cleared by who has the turn when nobody reads them any more.
    pub(crate) fn uncover_next(
        self: &Arc<Self>,
        from: &[u8],
        upper: &[u8],
        has_turn: impl FnOnce(),
    ) -> Result<Vec<u8>> {
        let Some(base) = self.base() else { return Ok(upper.to_vec()) };
        let turn = self.compacting.lock();
        has_turn();
        let uncovered = self.uncover_from(base, from, upper);
        self.absorbing.learn(&uncovered);
        self.keep_apart();
        self.end_turn(turn);
        uncovered.and_then(|end| self.files.conclude().map(|()| end))
    }

    /// Empties what is below the tables of ranges that were uncovered and that nobody reads as they were any more.
    /// Where that cannot be it is tried again by the next who has the turn, and by the next opening. The turn is held.
    pub(super) fn clear_uncovered(&self) -> Result<()> {
        let Some(base) = self.base() else { return Ok(()) };
        self.present.drain();
        let ripe = self.files.ripe();
        for span in &ripe {
            match base.carve(&span.0, Some(&span.1)) {
                Err(error) if error.is_shortage() => break,
                carved => carved?,
            }
            self.files.end_clearing(span);
        }
        if !ripe.is_empty() {
            self.keep_apart();
        }
        Ok(())
    }

    /// Whether something that was uncovered is read by nobody any more.
    pub(super) fn may_clear(&self) -> bool {
        let is_left = !self.files.uncovered().is_empty();
        if is_left {
            self.present.drain();
        }
        is_left && !self.files.ripe().is_empty()
    }

    /// Uncovers the piece that has a key. Gives where it ends.
    fn uncover_from(self: &Arc<Self>, base: &Arc<dyn Base>, from: &[u8], upper: &[u8]) -> Result<Vec<u8>> {
        let version = self.version();
        let (covers, stretch) = (version.covers(), version.covers().stretch_at(from));
        let Some(cover) = stretch.cover else { return Ok(stretch.upper.unwrap_or(upper).to_vec()) };
        let piece = self.first_piece(base, covers, self.rounded(base, covers, cover, (from, upper))?)?;
        let end = piece.1.clone();
        self.leaving.begin(&self.flushing, &piece);
        self.call_flush();
        let uncovered = self.uncover_piece(base, &version, piece);
        self.leaving.end();
        uncovered.map(|()| end)
    }

    fn uncover_piece(&self, base: &Arc<dyn Base>, version: &Version<Handle>, piece: Span) -> Result<()> {
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let (lower, upper) = &piece;
        let tables = version.run(LAST).map_or(&[][..], |run| run.within((lower, upper)));
        let files: Vec<File> = tables.iter().map(|table| table.file()).collect();
        let edges = version.edges(&piece, &files);
        let merged = self.merge_with_base(base, version, tables, &piece)?;
        let merged: Vec<_> = merged.into_iter().map(|handle| (LAST, handle)).collect();
        let stripped = self.strip(version, &edges).inspect_err(|_| self.remove(&merged))?;
        let covers = vec![CoverEdit { lower: lower.clone(), upper: upper.clone(), becomes: Become::Uncovered }];
        self.install_stripped(Change { goes: files, covers, ..Change::default() }, &merged, &edges, &stripped)?;
        let written = merged.iter().map(|(_, handle)| handle.bytes()).sum();
        self.adapted.add(written);
        tracing::debug!(
            keyspace = context.keyspace,
            written,
            took = ?context.shared.clock.since(began),
            "converted pages of a range to tables"
        );
        tables.iter().for_each(|table| self.let_go(table));
        Ok(())
    }

    /// Merges tables of the last level with what is below a range of keys.
    fn merge_with_base(
        &self,
        base: &Arc<dyn Base>,
        version: &Version<Handle>,
        tables: &[Arc<Handle>],
        (lower, upper): &Span,
    ) -> Result<Vec<Arc<Handle>>> {
        let rest = Rest::new((Bound::Included(lower.clone()), Bound::Excluded(upper.clone())));
        let below = Based::begin(base, rest, Direction::Up, Component::Frames)?;
        let a_record = match (tables, below.record()) {
            ([], None) => return Ok(Vec::new()),
            ([], Some((key, value))) => key.len() + value.len(),
            (tables, _) => mean(tables.iter()) as usize,
        };
        let handles = tables.iter().map(|table| &**table);
        let options = self.table_options(LAST, a_record, handles, version);
        let inputs = [(LAST, Run::part(tables.to_vec()))];
        let replaced: Vec<File> = tables.iter().map(|table| table.file()).collect();
        let drops = Drops::of(version, &replaced).with_base_of((lower.clone(), upper.clone()));
        let inputs: &[_] = if tables.is_empty() { &[] } else { &inputs };
        self.worked.make(|| self.merge_all(inputs, Some(below), drops, (options, Cuts::new(self.sizes.table, None))))
    }
}
