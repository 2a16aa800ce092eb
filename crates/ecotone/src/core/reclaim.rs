//! Log reclaim, step by step: one job at a time, and the size of each step (commit-and-recovery.md, "Log reclaim").

use std::time::Duration;

use ecotone_substrate::coalesced_job::CoalescedJob;
use ecotone_sys::primitive::Mutex;

/// The target duration of a step. A writer that finds the log full waits for one step.
const STEP: Duration = Duration::from_millis(500);
/// A step frees at most an eighth of the log in use.
const LARGEST: u64 = 8;
/// A step frees at least a 64th of the log's limit, since it ends with a checkpoint.
const SMALLEST: u64 = 64;

/// The reclaim steps of one database. At most one is under way.
#[derive(Debug, Default)]
pub(crate) struct ReclaimSteps {
    /// The job that runs the steps.
    pub(crate) job: CoalescedJob,
    /// Bytes that the next step should free. `None` before the first measured step.
    slice: Mutex<Option<u64>>,
}

impl ReclaimSteps {
    /// Bytes that the next step should free, for a log with `used` bytes in use and this limit.
    pub(crate) fn slice(&self, used: u64, limit: u64) -> u64 {
        let largest = (used / LARGEST).max(limit / LARGEST / 2);
        self.slice.lock().map_or(largest, |slice| slice.clamp(limit / SMALLEST, largest))
    }

    /// Adjusts the slice after a step that was to free `slice` bytes and freed `freed` in `time`. The next step frees
    /// the bytes that would have taken [`STEP`], within a factor of two. The time says nothing if much more or much
    /// less became free than was flushed: for instance a whole memtable, by the checkpoint alone.
    pub(crate) fn took(&self, slice: u64, freed: u64, time: Duration) {
        let factor = STEP.div_duration_f64(time.max(Duration::from_millis(1))).clamp(0.5, 2.0);
        let is_telling = (slice / 2..=slice.saturating_mul(2)).contains(&freed);
        if factor < 1.0 || is_telling {
            *self.slice.lock() = Some((slice as f64 * factor) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_frees_what_fits_into_its_time() {
        let (reclaim, used, limit) = (ReclaimSteps::default(), 800, 1600);
        assert_eq!(reclaim.slice(used, limit), 100);
        reclaim.took(100, 100, STEP * 3);
        assert_eq!(reclaim.slice(used, limit), 50, "at most half as much");
        reclaim.took(50, 50, STEP);
        assert_eq!(reclaim.slice(used, limit), 50);
        reclaim.took(50, 50, STEP * 100);
        assert_eq!(reclaim.slice(used, limit), 25);
        reclaim.took(10, 10, STEP * 2);
        assert_eq!(reclaim.slice(used, limit), 25, "a checkpoint is worth a 64th");
        reclaim.took(25, 25, STEP / 100);
        assert_eq!(reclaim.slice(used, limit), 50, "at most twice as much");
        reclaim.took(90, 90, Duration::ZERO);
        assert_eq!(reclaim.slice(used, limit), 100, "an eighth of what is used");
    }

    #[test]
    fn what_came_free_by_itself_says_nothing_of_the_next_step_but_that_it_took_long() {
        let (reclaim, used, limit) = (ReclaimSteps::default(), 800, 1600);
        reclaim.took(100, 0, Duration::ZERO);
        assert_eq!(reclaim.slice(used, limit), 100, "nothing is known yet");
        reclaim.took(80, 80, STEP * 2);
        assert_eq!(reclaim.slice(used, limit), 40);
        for freed in [0, 19, 81, 700] {
            reclaim.took(40, freed, STEP / 50);
            assert_eq!(reclaim.slice(used, limit), 40, "{freed} of 40 were freed");
        }
        reclaim.took(40, 700, STEP * 8 / 5);
        assert_eq!(reclaim.slice(used, limit), 25, "who waits, waits for the step");
        reclaim.took(25, 50, STEP / 4 * 3);
        assert_eq!(reclaim.slice(used, limit), 33);
    }
}
