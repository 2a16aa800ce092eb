//! How fast a job goes for which nobody waits (decision 16, "Pace of jobs").

use std::{mem, time::Duration};

use crate::lsm::records::Lsm;

/// The part of the time in which a job works that is not late at all.
const LEAST_SHARE: f64 = 0.25;
/// Nanoseconds that it sleeps at most after each look, and after which it looks whether it still may.
const LONGEST: u64 = 50_000_000;
const STEP: u64 = 10_000_000;
/// Nanoseconds without any use of the keyspace after which nobody is in the way.
const IDLE: u64 = 100_000_000;

/// The rate of one thread of a job. Who sleeps holds the turn, buffers, and nothing else (invariant 11).
pub(in crate::lsm) struct Rate<'l> {
    lsm: &'l Lsm,
    /// When it began to work last.
    since: u64,
    /// What was used of the keyspace when it looked last, and when that was another amount.
    used: (u64, u64),
    used_at: u64,
}

impl<'l> Rate<'l> {
    /// Of a job that begins.
    pub(in crate::lsm) fn begin(lsm: &'l Lsm) -> Rate<'l> {
        let now = lsm.files.context().shared.clock.now();
        Rate { lsm, since: now, used: lsm.use_so_far(), used_at: now }
    }

    /// It was at work for a while: sleeps as long as its share of the time wants.
    pub(in crate::lsm) fn rest(&mut self) {
        let clock = &self.lsm.files.context().shared.clock;
        let mut owed = pause(self.lsm.lateness(), clock.now().saturating_sub(self.since));
        while owed > 0 && self.may_sleep() {
            let step = owed.min(STEP);
            clock.sleep(Duration::from_nanos(step));
            owed -= step;
        }
        self.since = clock.now();
    }

    /// Whether nobody wants it done, and somebody could be in the way (invariant 10).
    fn may_sleep(&mut self) -> bool {
        let (lsm, environment) = (self.lsm, self.lsm.files.environment());
        let is_in_vain =
            environment.health.check().is_err() || lsm.check_live().is_err() || environment.scheduler.is_stopping();
        let is_wanted = lsm.lateness() >= 1.0 || lsm.compacting.is_wanted();
        environment.scheduler.is_threaded() && !is_in_vain && !is_wanted && !self.is_idle()
    }

    /// Whether nobody has used the keyspace for some time.
    fn is_idle(&mut self) -> bool {
        let (now, used) = (self.lsm.files.context().shared.clock.now(), self.lsm.use_so_far());
        if mem::replace(&mut self.used, used) != used {
            self.used_at = now;
        }
        now.saturating_sub(self.used_at) >= IDLE
    }
}

/// Nanoseconds to sleep after so many at work.
pub(in crate::lsm) fn pause(lateness: f64, worked: u64) -> u64 {
    let share = (LEAST_SHARE + (1.0 - LEAST_SHARE) * lateness * lateness).min(1.0);
    ((worked as f64 * (1.0 - share) / share) as u64).min(LONGEST)
}

impl Lsm {
    /// What becomes another number when records are written, or blocks or what is below them are read for keys.
    pub(in crate::lsm) fn use_so_far(&self) -> (u64, u64) {
        let pin = self.present.pin();
        let view = self.present.load(&pin);
        (view.active().writes(), self.files.loader().heat.reads(&view.version) + self.below.get())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn a_job_works_a_quarter_of_the_time_and_more_the_later_it_is() {
        let after = |lateness| pause(lateness, 8 * MILLISECOND);
        assert_eq!([0.0, 1.0, 7.0].map(after), [24 * MILLISECOND, 0, 0]);
        let pauses: Vec<_> = (0..=100).map(|percent| after(f64::from(percent) / 100.0)).collect();
        assert!(pauses.is_sorted_by(|a, b| a > b));
        assert_eq!(pause(0.0, u64::MAX / 2), LONGEST);
    }
}
