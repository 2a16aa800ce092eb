//! Throttles compactions that no caller waits for: a job sleeps after each piece of work, the less the higher the
//! compaction debt is (compaction-pace.md, "Compaction throttle").

use std::{mem, time::Duration};

use crate::store::Lsm;

/// Share of the time in which a job works if there is no compaction debt.
const LEAST_CPU_FRACTION: f64 = 0.25;
/// The longest sleep after a piece of work, and the steps after which a sleeping job checks whether it may go on
/// sleeping, in nanoseconds.
const LONGEST: u64 = 50_000_000;
const STEP: u64 = 10_000_000;
/// Nanoseconds without activity after which the keyspace is idle and a job does not sleep.
const IDLE: u64 = 100_000_000;

/// The throttle of one thread of a job. A sleeping thread holds the compaction lock and buffers, and nothing else
/// (compaction-pace.md, invariant 2).
pub(crate) struct CompactionThrottle<'l> {
    lsm: &'l Lsm,
    /// When the current piece of work began.
    since: u64,
    /// The activity counters at the last check, and when they changed last.
    used: (u64, u64),
    used_at: u64,
}

impl<'l> CompactionThrottle<'l> {
    /// For a job that begins now.
    pub(crate) fn begin(lsm: &'l Lsm) -> CompactionThrottle<'l> {
        let now = lsm.files.context().shared.clock.now();
        CompactionThrottle { lsm, since: now, used: lsm.activity(), used_at: now }
    }

    /// Called after a piece of work: sleeps so long that the job keeps its share of the time.
    pub(crate) fn pause(&mut self) {
        let clock = &self.lsm.files.context().shared.clock;
        let mut owed = pause_after(self.lsm.throttle.stall.debt_ratio(), clock.now().saturating_sub(self.since));
        while owed > 0 && self.should_pause() {
            let step = owed.min(STEP);
            clock.sleep(Duration::from_nanos(step));
            owed -= step;
        }
        self.since = clock.now();
    }

    /// Whether no thread waits for the job, and the job could slow other work down (compaction-pace.md,
    /// invariant 1).
    fn should_pause(&mut self) -> bool {
        let (lsm, environment) = (self.lsm, self.lsm.files.environment());
        let is_in_vain =
            environment.health.check().is_err() || lsm.check_live().is_err() || environment.scheduler.is_stopping();
        let has_waiters = lsm.throttle.stall.debt_ratio() >= 1.0 || lsm.compactor.lock.has_waiters();
        environment.scheduler.is_threaded() && !is_in_vain && !has_waiters && !self.is_idle()
    }

    /// Whether the keyspace has had no activity for some time.
    fn is_idle(&mut self) -> bool {
        let (now, used) = (self.lsm.files.context().shared.clock.now(), self.lsm.activity());
        if mem::replace(&mut self.used, used) != used {
            self.used_at = now;
        }
        now.saturating_sub(self.used_at) >= IDLE
    }
}

/// Nanoseconds to sleep after `worked` nanoseconds of work.
pub(crate) fn pause_after(debt_ratio: f64, worked: u64) -> u64 {
    let fraction = (LEAST_CPU_FRACTION + (1.0 - LEAST_CPU_FRACTION) * debt_ratio * debt_ratio).min(1.0);
    ((worked as f64 * (1.0 - fraction) / fraction) as u64).min(LONGEST)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::compaction::throttle::write_stall::{L0_SLOWDOWN_TRIGGER, L0_STOP_TRIGGER, STOP_DEBT_RATIO, fullness};

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn a_job_works_a_quarter_of_the_time_and_more_the_later_it_is() {
        let after = |debt_ratio| pause_after(debt_ratio, 8 * MILLISECOND);
        assert_eq!([0.0, 1.0, 7.0].map(after), [24 * MILLISECOND, 0, 0]);
        let pauses: Vec<_> = (0..=100).map(|percent| after(f64::from(percent) / 100.0)).collect();
        assert!(pauses.is_sorted_by(|a, b| a > b));
        assert_eq!(pause_after(0.0, u64::MAX / 2), LONGEST);
    }

    /// Otherwise each would wait for the other's slowness (compaction-pace.md, invariant 3).
    #[test]
    fn at_no_debt_ratio_do_jobs_sleep_and_writers_too() {
        for debt_ratio in (0..2000).map(|hundredths| f64::from(hundredths) / 100.0) {
            let delays =
                [L0_STOP_TRIGGER / L0_SLOWDOWN_TRIGGER, STOP_DEBT_RATIO].map(|full| fullness(debt_ratio, full));
            let is_paused = pause_after(debt_ratio, MILLISECOND) > 0;
            assert!(!is_paused || delays == [0.0; 2], "{debt_ratio}: {delays:?}");
            assert!(is_paused == (debt_ratio < 1.0) && delays.iter().all(|delay| (*delay > 0.0) == (debt_ratio > 1.0)));
        }
    }
}
