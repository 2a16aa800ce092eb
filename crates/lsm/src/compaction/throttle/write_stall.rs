//! Write stalls: measures how far flushes and compaction are behind the writers, and delays writers by that. The delay
//! begins early and is small at first (compaction-pace.md, "Write stalls"; commit-and-recovery.md, "Log reclaim").

use ecotone_substrate::{bug, throttle::WriteThrottle};
use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use crate::{cache::table_reader::TableReader, manifest::RunId, version::Version};

/// Immutable memtables, from which on writers take part in flushing.
pub(crate) const MAX_IMMUTABLE_MEMTABLES: usize = 2;
/// Runs of L0 from which on writers are slowed down, and with which they are slowed down most.
pub(crate) const L0_SLOWDOWN_TRIGGER: usize = 8;
pub(crate) const L0_STOP_TRIGGER: usize = 16;
/// How full the memtables of a keyspace are, as a fraction, from which on writers are slowed down. A flush gives a
/// third back at once, so less than that is passed between two flushes.
const SLOW_FROM: f64 = 0.5;
/// Most debt of the levels, in bytes above their targets: a part of the last level, and at least so many memory
/// budgets.
const DEBT_PART: u64 = 4;
const DEBT_BUDGETS: u64 = 4;
/// The part of the most debt at which the debt ratio is 1 and compaction is late.
pub(super) const STOP_DEBT_RATIO: usize = 16;

/// The write-stall state of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct WriteStall {
    /// The debt ratio of compaction, as the bits of an `f64`.
    debt_ratio: AtomicU64,
    /// The debt ratio that an earlier session left, beyond the start of the slowdown, as far as it was not worked off;
    /// as bits. A larger memory budget may have caused it, for which the same levels were not late.
    inherited: AtomicU64,
    /// How far compaction is behind, from 0 to 1, as bits; 0 as long as no writer is delayed for it.
    stall_fraction: AtomicU64,
    pub(crate) pace: WriteThrottle,
    /// The running compaction: runs of L0 that it takes wholly, bytes of its input tables, and bytes of these that it
    /// has merged.
    job_runs: AtomicU64,
    job_bytes: AtomicU64,
    job_passed: AtomicU64,
}

impl WriteStall {
    /// A compaction begins, with so many runs of L0 and so many bytes. There is one at a time.
    pub(crate) fn begin_job(&self, runs: u64, bytes: u64) {
        self.job_passed.store(0, Ordering::Relaxed);
        self.job_bytes.store(bytes, Ordering::Relaxed);
        self.job_runs.store(runs, Ordering::Relaxed);
    }

    /// The compaction has merged so many bytes.
    pub(crate) fn pass(&self, bytes: u64) {
        self.job_passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The compaction has ended.
    pub(crate) fn end_job(&self) {
        self.job_runs.store(0, Ordering::Relaxed);
    }

    /// How far compaction is behind, from 0 to 1.
    pub(crate) fn stall_fraction(&self) -> f64 {
        f64::from_bits(self.stall_fraction.load(Ordering::Relaxed))
    }

    /// The debt ratio: at 0 no compaction is due; from 1 on compactions may use all resources, and writers are slowed
    /// down (compaction-pace.md, "Compaction throttle").
    pub(crate) fn debt_ratio(&self) -> f64 {
        f64::from_bits(self.debt_ratio.load(Ordering::Relaxed))
    }

    /// Forgives debt that an earlier session left: the first writers do not pay for it. From the next update on writers
    /// are slowed down only by the debt that comes on top.
    pub(crate) fn forgive_inherited_debt(&self) {
        if !bug!(PaceForNobody) {
            self.inherited.store(f64::INFINITY.to_bits(), Ordering::Relaxed);
        }
    }

    /// Computes the debt ratio of a version.
    pub(crate) fn update(&self, version: &Version<TableReader>, l0_target: u64, budget: u64) {
        let (runs, debt) = (version.l0_debt_ratio(self.allowance()), version.level_debt_ratio(l0_target, budget));
        self.debt_ratio.store(runs.max(debt).to_bits(), Ordering::Relaxed);
        let inherited = still_inherited(f64::from_bits(self.inherited.load(Ordering::Relaxed)), debt);
        self.inherited.store(inherited.to_bits(), Ordering::Relaxed);
        let stall_fraction =
            fullness(runs, L0_STOP_TRIGGER / L0_SLOWDOWN_TRIGGER).max(fullness(debt - inherited, STOP_DEBT_RATIO));
        self.stall_fraction.store(stall_fraction.to_bits(), Ordering::Relaxed);
    }

    /// Runs of L0 that count as compacted already: half of the share that the running compaction has read. With the
    /// whole share, L0 would become too large; with none, the write rate would go up and down with each compaction
    /// (compaction-pace.md, "Write stalls").
    fn allowance(&self) -> f64 {
        let [runs, bytes, passed] =
            [&self.job_runs, &self.job_bytes, &self.job_passed].map(|of| of.load(Ordering::Relaxed) as f64);
        runs * (passed / bytes.max(1.0)).min(1.0) / 2.0
    }
}

/// The rest of an inherited debt ratio, now that the debt ratio is `debt_ratio`.
fn still_inherited(inherited: f64, debt_ratio: f64) -> f64 {
    inherited.min((debt_ratio - 1.0).max(0.0))
}

/// The stall fraction of a debt ratio: 0 up to 1, and 1 from `full` on.
pub(super) fn fullness(debt_ratio: f64, full: usize) -> f64 {
    ((debt_ratio - 1.0) / (full - 1) as f64).clamp(0.0, 1.0)
}

/// The stall fraction of the memtables: from 0, where writers are not slowed down, to 1, where all are full.
pub(crate) fn memtable_stall_fraction(filled: f64, waiting: usize) -> f64 {
    let full = (waiting as f64 + filled) / (MAX_IMMUTABLE_MEMTABLES + 1) as f64;
    ((full - SLOW_FROM) / (1.0 - SLOW_FROM)).clamp(0.0, 1.0)
}

impl Version<TableReader> {
    /// The debt ratio of L0, of which so many runs count as compacted.
    fn l0_debt_ratio(&self, allowance: f64) -> f64 {
        (self.l0_runs().count() as f64 - allowance).max(0.0) / L0_SLOWDOWN_TRIGGER as f64
    }

    /// The debt ratio of the levels: bytes above their targets, and those of L0 above its own.
    fn level_debt_ratio(&self, l0_target: u64, budget: u64) -> f64 {
        let above = |run_id| match run_id {
            RunId::LAST => 0,
            RunId::Level(level) => self.bytes_at(run_id).saturating_sub(self.target(level, l0_target)),
            RunId::L0(_) => self.bytes_at(run_id),
        };
        let debt: u64 = self.runs().map(|(run_id, _)| above(run_id)).sum();
        let most = (self.bytes_at(RunId::LAST) / DEBT_PART).max(DEBT_BUDGETS * budget);
        STOP_DEBT_RATIO as f64 * debt.saturating_sub(l0_target) as f64 / most as f64
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_a_job_has_read_counts_as_done_while_it_lasts() {
        let write_stall = WriteStall::default();
        write_stall.begin_job(6, 100);
        let after = |bytes| {
            write_stall.pass(bytes);
            write_stall.allowance()
        };
        assert_eq!([0, 50, 50, 50].map(after), [0.0, 1.5, 3.0, 3.0]);
        write_stall.end_job();
        assert_eq!(write_stall.allowance(), 0.0);
    }

    #[test]
    fn what_is_inherited_is_forgiven_until_it_is_worked_off() {
        let looks = [20.0, 24.0, 12.0, 14.0, 0.5, 3.0];
        let mut inherited = f64::INFINITY;
        let stall_fraction = looks.map(|debt_ratio| {
            inherited = still_inherited(inherited, debt_ratio);
            debt_ratio - inherited
        });
        assert_eq!(stall_fraction, [1.0, 5.0, 1.0, 3.0, 0.5, 3.0], "by what came to it, and at last by all");
    }

    #[test]
    fn writers_are_slowed_down_from_where_jobs_are_not_on() {
        assert_eq!([0.0, 1.0, 1.5, 2.0, 9.0].map(|debt_ratio| fullness(debt_ratio, 2)), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!([1.0, 16.0].map(|debt_ratio| fullness(debt_ratio, STOP_DEBT_RATIO)), [0.0, 1.0]);
    }

    #[test]
    fn memtables_slow_writers_from_half_of_all_on() {
        assert_eq!(
            [(0.0, 0), (1.0, 0), (0.25, 1), (0.5, 1)].map(|(filled, waiting)| memtable_stall_fraction(filled, waiting)),
            [0.0; 4]
        );
        assert!((memtable_stall_fraction(0.25, 2) - 0.5).abs() < 1e-9);
        assert_eq!([1.0, 2.0].map(|filled| memtable_stall_fraction(filled, 2)), [1.0; 2]);
    }
}
