//! A range that becomes pages, or tables again, piece by piece.

use std::sync::Arc;

use ecotone_substrate::Result;

use super::{hints::has_some, price};
use crate::lsm::{Merged, Plan, Split, records::Lsm};

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Absorb,
    /// One run, in the last level.
    Merge,
    Uncover,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// They have lost more to tables than it costs.
    Scans,
    /// Somebody said so.
    Hint,
    /// Scans have left it.
    Cold,
    /// Scans come to it, and nobody is in the way.
    Idle,
}

impl Reason {
    /// As `stats` has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Reason::Scans => "scans",
            Reason::Hint => "hint",
            Reason::Cold => "cold",
            Reason::Idle => "idle",
        }
    }
}

/// How many times what was to be read a merge reads at most, whatever is written meanwhile.
const LEEWAY: u64 = 2;

/// One range, as far as it has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    pub(super) kind: Kind,
    pub(super) reason: Reason,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
    /// What is left begins here.
    pub(super) from: Vec<u8>,
    /// Whether nothing of it is done.
    pub(super) is_new: bool,
    /// Bytes that were to be read and written again when it began, if anybody asked.
    bytes: f64,
    /// Bytes that a merge may still read, or write to make way, and that it has read.
    most: u64,
    read: u64,
    /// Nanoseconds of processor that it took so far.
    pub(super) worked: u64,
    /// Places that it leaves above what becomes pages, where it takes one place alone.
    pub(super) above: usize,
    /// Whether it ended before it was done.
    pub(super) is_given_up: bool,
    /// Nanoseconds of the clock before which it is not tried again.
    pub(super) not_before: u64,
}

impl Task {
    /// Not begun.
    pub(super) fn new(kind: Kind, reason: Reason, lower: Vec<u8>, upper: Vec<u8>) -> Task {
        let from = lower.clone();
        Task {
            kind,
            reason,
            lower,
            upper,
            from,
            is_new: true,
            bytes: 0.0,
            most: 0,
            read: 0,
            worked: 0,
            above: 0,
            is_given_up: false,
            not_before: 0,
        }
    }

    /// To have a range in pages, for which so many bytes are read and written again, if anybody asked.
    pub(super) fn absorb(
        lsm: &Lsm,
        split: Split,
        reason: Reason,
        (lower, upper): (Vec<u8>, Vec<u8>),
        bytes: f64,
    ) -> Task {
        let above = lsm.absorptions(split, &lower, &upper) - 1;
        Task { bytes, above, ..Task::new(Kind::Absorb, reason, lower, upper) }
    }

    /// To have a range in one run as it was planned, since scans have paid for it.
    pub(super) fn merge((lower, upper): (Vec<u8>, Vec<u8>), plan: Plan) -> Task {
        let most = plan.most.min(LEEWAY * plan.bytes);
        Task { bytes: plan.bytes as f64, most, ..Task::new(Kind::Merge, Reason::Scans, lower, upper) }
    }

    /// Does the next piece. The nanoseconds that it was at work, without the wait for the turn: those that its threads
    /// had a processor and it kept the disk busy, and not more than went by.
    pub(super) fn step(&mut self, lsm: &Arc<Lsm>, split: Split, now: impl Fn() -> u64) -> (Result<()>, u64) {
        self.is_new = false;
        let look = || (now(), lsm.worked(), lsm.adapted_bytes());
        let (mut before, read) = (look(), self.read);
        let has_turn = || before = look();
        let ended = match self.kind {
            Kind::Absorb => lsm.absorb_next(split, (&self.from, &self.upper), has_turn),
            Kind::Merge => {
                lsm.merge_next((&self.from, &self.upper), self.most, has_turn).map(|merged| self.merged(merged))
            }
            Kind::Uncover => lsm.uncover_next(&self.from, &self.upper, has_turn),
        };
        let ended = ended.map(|end| {
            self.from = end;
            self.rise(lsm);
        });
        let after = look();
        let (worked, bytes) = (after.1 - before.1, after.2 - before.2);
        // What makes way for a merge has another price.
        if self.kind != Kind::Merge || self.read > read {
            self.worked += worked;
        }
        let busy = worked + (bytes as f64 * price::DISK) as u64;
        (ended, busy.min(after.0.saturating_sub(before.0)))
    }

    /// A turn of a merge has done this, if there was anything to do: where the next begins.
    fn merged(&mut self, merged: Option<Merged>) -> Vec<u8> {
        let Some(Merged { read, before }) = merged else { return self.upper.clone() };
        self.read += read;
        self.most = self.most.saturating_sub(read + before);
        if self.most > 0 { self.from.clone() } else { self.upper.clone() }
    }

    /// Bytes for which it has worked, of which a merge knows how many they were.
    pub(super) fn touched(&self) -> f64 {
        if self.kind == Kind::Merge { self.read as f64 } else { self.bytes }
    }

    /// Begins with the next place when one is done, if somebody asked for the range. What comes meanwhile makes it no
    /// longer.
    fn rise(&mut self, lsm: &Lsm) {
        if self.is_done() && self.reason == Reason::Hint && self.above > 0 {
            let is_free = lsm.counted(&self.lower, &self.upper).bytes == 0;
            self.above = if is_free { 0 } else { self.above - 1 };
            self.from = if is_free { self.upper.clone() } else { self.lower.clone() };
        }
    }

    /// Nothing more of it is done.
    pub(super) fn give_up(&mut self) {
        self.from = self.upper.clone();
        self.is_given_up = true;
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.from >= self.upper
    }

    /// Whether it is of nothing but keys of a range, which has no end or this one.
    pub(super) fn is_within(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        *lower <= *self.lower && upper.is_none_or(|upper| *self.upper <= *upper)
    }

    /// Whether it has keys of a range, which has no end or this one.
    pub(super) fn has_some_of(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        has_some((&self.lower, Some(&self.upper)), (lower, upper))
    }
}
