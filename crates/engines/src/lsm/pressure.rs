//! How far the background is behind those who write, and how these are slowed down: early, and by little (decision 11,
//! "Pressure"; decision 1, "Slowing down").

use std::sync::Arc;

use ecotone_substrate::{bug, pace::Pace, retry::Retry};
use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::{handle::Handle, records::Lsm, structure::Place, version::Version};
use crate::delay::Delay;

/// Memtables that wait for their flush before writers take part in it.
pub(super) const WAITING: usize = 2;
/// Runs of level 0 from which on writers are slowed down, and with which they come to rest.
pub(super) const SLOW_RUNS: usize = 8;
pub(super) const FULL_RUNS: usize = 16;
/// The part of what its memtables may fill from which on writers are slowed down: a flush gives a third back at once,
/// so less than that is passed between two.
const SLOW_FROM: f64 = 0.5;
/// What levels may have above their targets: a part of so many of the last level, and at least so many budgets of
/// memory.
const DEBT_PART: u64 = 4;
const DEBT_BUDGETS: u64 = 4;
/// The part of that with which compaction is late.
pub(super) const LATE_PART: usize = 16;

/// What those who write to a keyspace owe.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// The lateness of compaction: its bits.
    lateness: AtomicU64,
    /// How late the levels were when the keyspace was opened, beyond where writers are slowed down, as far as it has
    /// not been worked off: the bits. It may come of a larger memory budget, for which the same levels were not late.
    inherited: AtomicU64,
    /// How far compaction is behind: the bits of a part, 0 as long as nobody is delayed for it.
    behind: AtomicU64,
    pace: Pace,
    /// Of the job that compacts, and of the one that flushes.
    pub(super) compaction: Retry,
    pub(super) flush: Retry,
    /// Runs of level 0 that the present job takes wholly, bytes of its tables, and of records of these that have
    /// passed.
    job_runs: AtomicU64,
    job_bytes: AtomicU64,
    job_passed: AtomicU64,
}

impl Pressure {
    /// A job begins, with so many runs of level 0 and so many bytes. There is one at a time.
    pub(super) fn begin_job(&self, runs: u64, bytes: u64) {
        self.job_passed.store(0, Ordering::Relaxed);
        self.job_bytes.store(bytes, Ordering::Relaxed);
        self.job_runs.store(runs, Ordering::Relaxed);
    }

    /// So many bytes of its records have passed.
    pub(super) fn pass(&self, bytes: u64) {
        self.job_passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It has ended.
    pub(super) fn end_job(&self) {
        self.job_runs.store(0, Ordering::Relaxed);
    }

    /// Runs that the present job has relieved level 0 of, in a manner of speaking: half of the part that it has read.
    /// With all of it level 0 would become too large, with none the rate of writers would go up and down with each job
    /// (decision 16, "Pace of writers").
    fn relief(&self) -> f64 {
        let [runs, bytes, passed] =
            [&self.job_runs, &self.job_bytes, &self.job_passed].map(|of| of.load(Ordering::Relaxed) as f64);
        runs * (passed / bytes.max(1.0)).min(1.0) / 2.0
    }
}

impl Lsm {
    /// Delays who is about to write so many bytes a little while the background is behind. Without threads in the
    /// background nobody would catch up.
    #[inline]
    pub(super) fn pace(self: &Arc<Self>, bytes: usize) {
        let (filled, waiting, _) = self.fill_level();
        let memory = fullness_of_memtables(filled, waiting).max(self.pool.fullness());
        if memory.max(self.behind()) > 0.0 && self.files.environment().scheduler.is_threaded() {
            self.slow_down(memory, bytes);
        }
    }

    /// Nobody waits for what nobody does: it is asked for, and what has failed is not waited for.
    #[cold]
    fn slow_down(self: &Arc<Self>, memory: f64, bytes: usize) {
        let memory = if memory > 0.0 && self.is_flushed() { memory } else { 0.0 };
        let is_owed = self.behind() > 0.0 && (bug!(PaceForNobody) || self.is_compacted());
        let behind = if is_owed { self.behind() } else { 0.0 };
        if let Some(owed) = self.pressure.pace.charge(memory.max(behind), bytes) {
            if self.pool.fullness() > 0.0 {
                // Whose memtables are large may not write any more, and nobody else asks for their flush before he
                // needs memory.
                self.pool.relieve();
            }
            Delay::new(&self.delays, &*self.files.context().shared.clock).sleep(owed);
        }
    }

    /// Whether somebody flushes, now that it was asked for.
    fn is_flushed(self: &Arc<Self>) -> bool {
        if self.memtables_wait() && self.pressure.flush.is_due(&*self.files.context().shared.clock) {
            self.call_flush();
        }
        !self.pressure.flush.has_failed()
    }

    /// Whether somebody compacts, now that it was asked for.
    pub(super) fn is_compacted(self: &Arc<Self>) -> bool {
        if self.compaction_job.is_idle() && self.pressure.compaction.is_due(&*self.files.context().shared.clock) {
            self.call_compaction();
        }
        let is_busy = !self.compaction_job.is_idle() || self.compacting.is_taken();
        is_busy && !self.pressure.compaction.has_failed()
    }

    /// How far compaction is behind, from 0 to 1.
    pub(crate) fn behind(&self) -> f64 {
        f64::from_bits(self.pressure.behind.load(Ordering::Relaxed))
    }

    /// How late compaction is: at 0 nothing is due, from 1 on jobs may use all there is, and writers are slowed down
    /// (decision 16, "Pace of jobs").
    pub(super) fn lateness(&self) -> f64 {
        f64::from_bits(self.pressure.lateness.load(Ordering::Relaxed))
    }

    /// Whoever writes first does not pay for what was left by an earlier life: what levels have above their targets now
    /// slows writers down only by what comes to it.
    pub(super) fn inherit_debt(&self) {
        if !bug!(PaceForNobody) {
            self.pressure.inherited.store(f64::INFINITY.to_bits(), Ordering::Relaxed);
        }
        self.look_behind();
    }

    /// Finds out how far compaction is behind, now that the tables are others, or a job has gone on.
    pub(super) fn look_behind(&self) {
        let version = self.version();
        self.look_for_space(&version);
        let budget = self.files.environment().memory.budget() as u64;
        let (runs, debt) = (
            version.lateness_of_level_0(self.pressure.relief()),
            version.lateness_of_levels(self.sizes.level_0, budget),
        );
        self.pressure.lateness.store(runs.max(debt).to_bits(), Ordering::Relaxed);
        let inherited = still_inherited(f64::from_bits(self.pressure.inherited.load(Ordering::Relaxed)), debt);
        self.pressure.inherited.store(inherited.to_bits(), Ordering::Relaxed);
        let behind = fullness(runs, FULL_RUNS / SLOW_RUNS).max(fullness(debt - inherited, LATE_PART));
        self.pressure.behind.store(behind.to_bits(), Ordering::Relaxed);
    }
}

/// What is left of an inherited lateness, now that it is so much in all.
fn still_inherited(inherited: f64, lateness: f64) -> f64 {
    inherited.min((lateness - 1.0).max(0.0))
}

/// From 0, where compaction is late, to 1, where it is so many times as late.
pub(super) fn fullness(lateness: f64, full: usize) -> f64 {
    ((lateness - 1.0) / (full - 1) as f64).clamp(0.0, 1.0)
}

/// From 0, where writers are not slowed down, to 1, where all is full.
pub(super) fn fullness_of_memtables(filled: f64, waiting: usize) -> f64 {
    let full = (waiting as f64 + filled) / (WAITING + 1) as f64;
    ((full - SLOW_FROM) / (1.0 - SLOW_FROM)).clamp(0.0, 1.0)
}

impl Version<Handle> {
    /// That of level 0, which a job has relieved of so many runs.
    fn lateness_of_level_0(&self, relief: f64) -> f64 {
        (self.level_0().count() as f64 - relief).max(0.0) / SLOW_RUNS as f64
    }

    /// That of what is to be compacted besides what level 0 may have.
    fn lateness_of_levels(&self, level_0: u64, budget: u64) -> f64 {
        let above = |place| match place {
            Place::Level(1) => 0,
            Place::Level(depth) => self.bytes_at(place).saturating_sub(self.target(depth, level_0)),
            Place::Run(_) => self.bytes_at(place),
        };
        let debt: u64 = self.runs().map(|(place, _)| above(place)).sum();
        let most = (self.bytes_at(Place::Level(1)) / DEBT_PART).max(DEBT_BUDGETS * budget);
        LATE_PART as f64 * debt.saturating_sub(level_0) as f64 / most as f64
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_a_job_has_read_counts_as_done_while_it_lasts() {
        let pressure = Pressure::default();
        pressure.begin_job(6, 100);
        let after = |bytes| {
            pressure.pass(bytes);
            pressure.relief()
        };
        assert_eq!([0, 50, 50, 50].map(after), [0.0, 1.5, 3.0, 3.0]);
        pressure.end_job();
        assert_eq!(pressure.relief(), 0.0);
    }

    #[test]
    fn what_is_inherited_is_forgiven_until_it_is_worked_off() {
        let looks = [20.0, 24.0, 12.0, 14.0, 0.5, 3.0];
        let mut inherited = f64::INFINITY;
        let behind = looks.map(|lateness| {
            inherited = still_inherited(inherited, lateness);
            lateness - inherited
        });
        assert_eq!(behind, [1.0, 5.0, 1.0, 3.0, 0.5, 3.0], "by what came to it, and at last by all");
    }

    #[test]
    fn writers_are_slowed_down_from_where_jobs_are_not_on() {
        assert_eq!([0.0, 1.0, 1.5, 2.0, 9.0].map(|lateness| fullness(lateness, 2)), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!([1.0, 16.0].map(|lateness| fullness(lateness, LATE_PART)), [0.0, 1.0]);
    }

    #[test]
    fn memtables_slow_writers_from_half_of_all_on() {
        assert_eq!(
            [(0.0, 0), (1.0, 0), (0.25, 1), (0.5, 1)].map(|(filled, waiting)| fullness_of_memtables(filled, waiting)),
            [0.0; 4]
        );
        assert!((fullness_of_memtables(0.25, 2) - 0.5).abs() < 1e-9);
        assert_eq!([1.0, 2.0].map(|filled| fullness_of_memtables(filled, 2)), [1.0; 2]);
    }
}
