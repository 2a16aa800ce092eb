//! A task: one range that is converted to pages, to one run or back to tables, step by step.

use std::sync::Arc;

use ecotone_engine::contract::ConversionReason;
use ecotone_lsm::{RangeCompactionEstimate, RangeCompactionStep, Split, pages::conversion::Conversion, store::Lsm};
use ecotone_substrate::Result;

use super::{cost_model, hints::overlaps};

/// What the range is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Pages,
    /// One run, in the last level.
    OneRun,
    Tables,
}

/// A merge reads at most this many times the planned bytes, whatever is written meanwhile.
const READ_MARGIN: u64 = 2;

/// The conversion of one range, and its progress.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    pub(super) target: Target,
    /// Why the range is converted.
    pub(super) reason: ConversionReason,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
    /// Start of the unconverted rest.
    pub(super) from: Vec<u8>,
    /// Bytes that a merge may still read, or write to prepare for its jobs.
    most: u64,
    /// Nanoseconds of processor used so far.
    pub(super) cpu_ns: u64,
    /// Runs and levels that stay above the pages, where one conversion takes one run or level.
    pub(super) levels_left: usize,
    /// Whether it was given up before its end.
    pub(super) is_given_up: bool,
    /// Earliest time of the next attempt, in nanoseconds of the clock.
    pub(super) not_before: u64,
}

impl Task {
    /// A task that has not started.
    pub(super) fn new(target: Target, reason: ConversionReason, lower: Vec<u8>, upper: Vec<u8>) -> Task {
        let from = lower.clone();
        Task {
            target,
            reason,
            lower,
            upper,
            from,
            most: 0,
            cpu_ns: 0,
            levels_left: 0,
            is_given_up: false,
            not_before: 0,
        }
    }

    /// A task that converts a range to pages.
    pub(super) fn convert(
        lsm: &Lsm,
        split: Split,
        reason: ConversionReason,
        (lower, upper): (Vec<u8>, Vec<u8>),
    ) -> Task {
        let levels_left = lsm.range_sizes().conversion_steps(split, &lower, &upper) - 1;
        Task { levels_left, ..Task::new(Target::Pages, reason, lower, upper) }
    }

    /// A task that merges a range into one run as planned, because scans have paid for it.
    pub(super) fn merge((lower, upper): (Vec<u8>, Vec<u8>), plan: RangeCompactionEstimate) -> Task {
        let most = plan.most.min(READ_MARGIN * plan.bytes);
        Task { most, ..Task::new(Target::OneRun, ConversionReason::Scans, lower, upper) }
    }

    /// Makes the next step. Also returns its busy time in nanoseconds: processor time of its threads plus disk time,
    /// and at most the time that went by. The wait for the job lock is not counted.
    pub(super) fn step(&mut self, lsm: &Arc<Lsm>, split: Split, now: impl Fn() -> u64) -> (Result<()>, u64) {
        let look = || (now(), lsm.cpu_time(), lsm.converted_bytes());
        let mut before = look();
        let on_start = || before = look();
        let ended = match self.target {
            Target::Pages => conversion(lsm).convert_next_to_pages(split, (&self.from, &self.upper), on_start),
            Target::OneRun => {
                lsm.compact_range_step((&self.from, &self.upper), self.most, on_start).map(|merged| self.merged(merged))
            }
            Target::Tables => conversion(lsm).convert_next_to_tables(&self.from, &self.upper, on_start),
        };
        let ended = ended.map(|end| {
            self.from = end;
            self.next_level(lsm);
        });
        let after = look();
        let (cpu_ns, bytes) = (after.1 - before.1, after.2 - before.2);
        self.cpu_ns += cpu_ns;
        let busy = cpu_ns + (bytes as f64 * cost_model::DISK) as u64;
        (ended, busy.min(after.0.saturating_sub(before.0)))
    }

    /// Accounts for one step of a merge, `None` if nothing was left to merge. Returns where the next step begins.
    fn merged(&mut self, merged: Option<RangeCompactionStep>) -> Vec<u8> {
        let Some(RangeCompactionStep { read, before }) = merged else { return self.upper.clone() };
        self.most = self.most.saturating_sub(read + before);
        if self.most > 0 { self.from.clone() } else { self.upper.clone() }
    }

    /// Starts a hinted task again with the next run or level when one is done. Records that arrive meanwhile do not add
    /// steps.
    fn next_level(&mut self, lsm: &Lsm) {
        if self.is_done() && self.reason == ConversionReason::Hint && self.levels_left > 0 {
            let is_free = lsm.range_sizes().range_size(&self.lower, &self.upper).bytes == 0;
            self.levels_left = if is_free { 0 } else { self.levels_left - 1 };
            self.from = if is_free { self.upper.clone() } else { self.lower.clone() };
        }
    }

    /// Ends the task before it is done.
    pub(super) fn give_up(&mut self) {
        self.from = self.upper.clone();
        self.is_given_up = true;
    }

    /// Whether nothing is left to convert.
    pub(super) fn is_done(&self) -> bool {
        self.from >= self.upper
    }

    /// Whether the task lies within a range, which is unbounded without `upper`.
    pub(super) fn is_within(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        *lower <= *self.lower && upper.is_none_or(|upper| *self.upper <= *upper)
    }

    /// Whether the task overlaps a range, which is unbounded without `upper`.
    pub(super) fn overlaps_range(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        overlaps((&self.lower, Some(&self.upper)), (lower, upper))
    }
}

/// The conversions of a keyspace's tables.
pub(super) fn conversion(lsm: &Arc<Lsm>) -> Conversion<'_> {
    Conversion::of(lsm).expect("an adaptive keyspace has a page tier")
}
