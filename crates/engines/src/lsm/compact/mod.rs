//! Levelled compaction: what is written sinks from level to level, and what it replaces ends (decision 11, "Levels and
//! compaction"; decision 12, invariants 12 to 18). One job at a time in a keyspace.

pub(super) mod columns;
pub(super) mod cuts;
pub(super) mod descent;
pub(super) mod drops;
pub(super) mod job;
pub(super) mod merge;
pub(super) mod parts;
pub(super) mod pick;
pub(super) mod rate;
pub(super) mod rounds;
mod slices;
pub(super) mod split;
#[cfg(test)]
mod tests;
pub(super) mod whole;

use std::sync::Arc;

use ecotone_substrate::{Result, scheduler::Priority};

use self::{
    cuts::REACH,
    pick::{Piece, Small},
};
use super::{
    handle::Handle,
    open::Opening,
    pressure::{FULL_RUNS, SLOW_RUNS},
    records::Lsm,
    structure::{Change, Place},
    version::{Ranged, Version},
};
use crate::turn::Taken;

/// How many times as many runs as writers come to rest with level 0 gets before whoever flushes compacts it first: then
/// the background cannot.
const LEEWAY: usize = 2;

/// Runs become one with such a part of what level 0 may have at most, since they do not go down then: about half of it
/// goes down with the first four.
const PAID_PART: u64 = 2;

impl Lsm {
    /// Has the background compact what is due, and clear what was uncovered. What an earlier session left waits until
    /// something is written.
    pub(super) fn call_compaction(self: &Arc<Self>) {
        if !self.files.context().shared.wal.has_begun() {
            return;
        }
        let version = self.version();
        let is_due = version.is_due(self.sizes.level_0, self.small()) || self.is_due_when_idle(&version);
        if is_due || self.shortage.is_there() && version.has_upper() || self.may_clear() {
            self.call_compaction_job();
        }
    }

    /// Gives the turn of compaction back, after whatever time. The job that came meanwhile has only tried to get it.
    pub(super) fn end_turn(self: &Arc<Self>, turn: Taken<'_>) {
        drop(turn);
        self.call_compaction_job();
    }

    fn call_compaction_job(self: &Arc<Self>) {
        if self.compaction_job.call() {
            self.schedule_compaction();
        }
    }

    fn schedule_compaction(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.spawn(Priority::Compact, "compact tables", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            lsm.compaction_job.begin();
            match lsm.compact_next() {
                // One after the other, so that what is more urgent comes between.
                Ok(true) => {
                    lsm.pressure.compaction.succeeded();
                    lsm.call_compaction();
                }
                Ok(false) => lsm.pressure.compaction.succeeded(),
                // Without memory or space it is tried again when there are more tables, when writers come while it is
                // behind, or when nobody has used the keyspace for long once more.
                Err(error) => {
                    lsm.idle.begin_anew();
                    lsm.pressure.compaction.failed(&*lsm.files.context().shared.clock);
                    drop(lsm.files.environment().health.postpone("compacting tables", error));
                }
            }
            if lsm.compaction_job.end() {
                lsm.schedule_compaction();
            }
        });
    }

    /// Compacts what is due, or nothing, if there is nothing or another compacts. Whether it did.
    pub(crate) fn compact_next(self: &Arc<Self>) -> Result<bool> {
        let Some(_turn) = self.compacting.try_lock() else { return Ok(false) };
        self.clear_uncovered()?;
        Ok(self.compact_in_turn(|version| self.pick(version), false)?.is_some())
    }

    fn pick(&self, version: &Version<Handle>) -> Option<Piece<Handle>> {
        let level_0 = self.sizes.level_0;
        let is_idle = self.is_due_when_idle(version);
        // All of them go down then.
        let small = if is_idle { Small::NONE } else { self.small() };
        let due = version.pick(level_0, small, &mut self.rounds.lock());
        let of_runs = || if version.level_0().count() > 1 { version.piece_of_level_0(level_0) } else { None };
        let idle = || is_idle.then(|| of_runs().or_else(|| version.piece_of_litter(level_0))).flatten();
        due.or_else(idle).or_else(|| self.shortage.is_there().then(|| version.piece_of_upper(level_0)).flatten())
    }

    /// What makes the runs of level 0 fewer.
    fn pick_of_level_0(&self, version: &Version<Handle>) -> Option<Piece<Handle>> {
        version
            .piece_of_small_runs(Small { paid: 0, ..self.small() })
            .or_else(|| version.piece_of_oldest(self.sizes.level_0))
    }

    /// Which runs of level 0 become one.
    pub(super) fn small(&self) -> Small {
        // Small runs become one by all their bytes once more, which a full disk has not.
        if self.wholes.any() || self.shortage.is_there() {
            Small::NONE
        } else {
            Small { few: self.sizes.small, paid: self.toll.paid() }
        }
    }

    /// A scan came to so many runs of level 0: those beside one have cost it something.
    pub(super) fn pay(self: &Arc<Self>, runs: u64) {
        if self.toll.pass(runs.saturating_sub(1), self.sizes.level_0 / PAID_PART) {
            self.call_compaction();
        }
    }

    /// Sees to it that level 0 can get another run.
    pub(super) fn make_place(self: &Arc<Self>) -> Result<()> {
        loop {
            let most = if self.files.environment().scheduler.is_threaded() { LEEWAY * FULL_RUNS } else { FULL_RUNS };
            let has_most = |version: &Version<Handle>| version.level_0().count() >= most;
            if !has_most(&self.version()) {
                return Ok(());
            }
            self.compact_by(|version| has_most(version).then(|| self.pick_of_level_0(version)).flatten())?;
        }
    }

    /// Waits for the turn, and makes the job that is chosen then. Whether one was.
    fn compact_by(self: &Arc<Self>, pick: impl Fn(&Version<Handle>) -> Option<Piece<Handle>>) -> Result<bool> {
        let turn = self.compacting.lock();
        let compacted = self.compact_in_turn(pick, true);
        self.end_turn(turn);
        Ok(compacted?.is_some())
    }

    /// Makes one job that is due if writers are slowed down for level 0: for who has the turn again and again, so that
    /// jobs of the background hardly get it.
    fn relieve_level_0(self: &Arc<Self>) -> Result<()> {
        let is_full = |version: &Version<Handle>| version.level_0().count() >= SLOW_RUNS;
        if is_full(&self.version()) {
            self.compact_by(|version| is_full(version).then(|| self.pick(version)).flatten())?;
        }
        Ok(())
    }

    /// Makes the job that is chosen from the present version, which has all of it still, since nobody else compacts.
    /// Bytes of its tables, if one was. It does not rest if a caller waits for it.
    fn compact_in_turn(
        self: &Arc<Self>,
        pick: impl Fn(&Version<Handle>) -> Option<Piece<Handle>>,
        is_awaited: bool,
    ) -> Result<Option<u64>> {
        let version = self.version();
        // What was flushed since a job began is left to the next: there would be something to absorb again before each,
        // and no end to it.
        let resumed = self.absorbing.begun().and_then(|youngest| pick(&version.without_younger(youngest)));
        let Some(piece) = resumed.or_else(|| pick(&version)) else { return Ok(None) };
        self.compact(version, piece, is_awaited).map(Some)
    }

    /// Makes one job, or a piece of what is to be absorbed before. Bytes of the job's tables; none if it is not made
    /// yet.
    fn compact(self: &Arc<Self>, version: Arc<Version<Handle>>, piece: Piece<Handle>, is_awaited: bool) -> Result<u64> {
        let Some(opening) = self.make_way(&version, &piece)? else {
            // A piece a turn: what is more urgent comes between.
            drop((version, piece));
            return self.files.conclude().map(|()| 0);
        };
        if opening.edits.is_empty()
            && piece.single().is_none()
            && let Some(most) = self.slice_bytes(&piece)?
        {
            drop((version, opening));
            let bytes = piece.bytes();
            self.replace_by_slices(piece, most, is_awaited)?;
            self.absorbing.end();
            self.compactions.increment();
            return self.files.conclude().map(|()| bytes);
        }
        let (bytes, replaced) = (piece.bytes(), self.replace(&version, &piece, &opening, is_awaited));
        if !opening.edits.is_empty() {
            self.keep_apart();
        }
        if piece.target.is_run() {
            // Also where there was no room for it: levels come first then.
            self.toll.spend(bytes);
        }
        replaced?;
        if !piece.target.is_run() {
            self.absorbing.end();
        }
        self.compactions.increment();
        // What is held has to stay.
        drop((version, piece, opening));
        self.files.conclude().map(|()| bytes)
    }

    /// Puts what becomes of a piece in its place, and opens what has to be open for that.
    fn replace(
        self: &Arc<Self>,
        version: &Arc<Version<Handle>>,
        piece: &Piece<Handle>,
        opening: &Opening,
        is_awaited: bool,
    ) -> Result<()> {
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let moves = piece.single().filter(|handle| self.may_move(version, handle, piece.target));
        let tables = if moves.is_some() { Vec::new() } else { self.merge(version, piece, None, is_awaited)? };
        let tables: Vec<_> = tables.into_iter().map(|handle| (piece.target, handle)).collect();
        let stripped = self.strip(version, &opening.edges).inspect_err(|_| self.remove(&tables))?;
        let comes = moves.iter().map(|handle| (piece.target, handle.file())).collect();
        let change = Change { goes: piece.files(), comes, covers: opening.edits.clone() };
        let inputs = || piece.inputs.iter().flat_map(|(_, run)| run.tables());
        if moves.is_none() {
            // Who scans them until others are there reads some again; the others need the memory.
            inputs().for_each(|handle| handle.table().forget_blocks());
        }
        self.install_stripped(change, &tables, &opening.edges, &stripped)?;
        tracing::debug!(
            keyspace = context.keyspace,
            runs = piece.inputs.len(),
            read = piece.bytes(),
            written = tables.iter().map(|(_, table)| table.bytes()).sum::<u64>(),
            took = ?context.shared.clock.since(began),
            "compacted tables"
        );
        if moves.is_none() {
            inputs().for_each(|handle| self.files.loader().heat.forget(handle));
        }
        Ok(())
    }

    /// Whether a table that overlaps nothing of a level may be there as it is: in the last one without tombstones, in
    /// others not above much.
    fn may_move(&self, version: &Version<Handle>, handle: &Handle, target: Place) -> bool {
        if target == Place::Level(1) {
            return handle.table().tombstones() == 0;
        }
        let behind = version.behind(target, self.sizes.level_0);
        let below = behind.map_or(&[][..], |run| run.overlapping(&(handle.first()..=handle.last())));
        below.iter().map(|table| table.bytes()).sum::<u64>() <= REACH * self.sizes.table
    }
}
