//! Relief of the log, step by step: whose turn it is, and how much one step frees (decision 1, "Log truncation").

use std::time::Duration;

use ecotone_sys::primitive::Mutex;

/// How long a step is to take: whoever finds the log full waits for one.
const STEP: Duration = Duration::from_millis(500);
/// A step frees at most this part of what is used.
const LARGEST: u64 = 8;
/// A step frees at least this part of the log's limit, since it ends with a checkpoint.
const SMALLEST: u64 = 64;

/// The steps of one database. One is under way at most.
#[derive(Debug, Default)]
pub(crate) struct Relief(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    turn: Turn,
    /// Bytes that the next step is to free; none before one was timed.
    slice: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Turn {
    #[default]
    Idle,
    Scheduled,
    Running,
    /// Was called for while it ran.
    RunningAgain,
}

impl Relief {
    /// The log wants relief. Whether a step is to be scheduled for it.
    pub(crate) fn call(&self) -> bool {
        let mut state = self.0.lock();
        let (next, schedule) = match state.turn {
            Turn::Idle => (Turn::Scheduled, true),
            Turn::Running => (Turn::RunningAgain, false),
            same => (same, false),
        };
        state.turn = next;
        schedule
    }

    /// A scheduled step begins.
    pub(crate) fn begin(&self) {
        self.0.lock().turn = Turn::Running;
    }

    /// A step has ended. Whether another is to be scheduled.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.0.lock();
        let again = state.turn == Turn::RunningAgain;
        state.turn = if again { Turn::Scheduled } else { Turn::Idle };
        again
    }

    /// Bytes that the next step frees, of a log with so many in use and such a limit.
    pub(crate) fn slice(&self, used: u64, limit: u64) -> u64 {
        let largest = (used / LARGEST).max(limit / LARGEST / 2);
        self.0.lock().slice.map_or(largest, |slice| slice.clamp(limit / SMALLEST, largest))
    }

    /// A step freed `slice` bytes in this time: the next one frees what would have taken [`STEP`], within a factor of two.
    pub(crate) fn took(&self, slice: u64, time: Duration) {
        let factor = STEP.div_duration_f64(time.max(Duration::from_millis(1))).clamp(0.5, 2.0);
        self.0.lock().slice = Some((slice as f64 * factor) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_runs_at_a_time_and_a_call_while_it_runs_is_not_lost() {
        let relief = Relief::default();
        assert!(relief.call());
        assert!(!relief.call(), "one is scheduled");
        relief.begin();
        assert!(!relief.call() && !relief.call(), "one is running");
        assert!(relief.end(), "it was called for meanwhile");
        assert!(!relief.call(), "one is scheduled");
        relief.begin();
        assert!(!relief.end());
        assert!(relief.call());
    }

    #[test]
    fn a_step_frees_what_fits_into_its_time() {
        let (relief, used, limit) = (Relief::default(), 800, 1600);
        assert_eq!(relief.slice(used, limit), 100);
        relief.took(100, STEP * 3);
        assert_eq!(relief.slice(used, limit), 50, "at most half as much");
        relief.took(50, STEP);
        assert_eq!(relief.slice(used, limit), 50);
        relief.took(50, STEP * 100);
        assert_eq!(relief.slice(used, limit), 25);
        relief.took(10, STEP * 2);
        assert_eq!(relief.slice(used, limit), 25, "a checkpoint is worth a 64th");
        relief.took(25, STEP / 100);
        assert_eq!(relief.slice(used, limit), 50, "at most twice as much");
        relief.took(90, Duration::ZERO);
        assert_eq!(relief.slice(used, limit), 100, "an eighth of what is used");
    }
}
