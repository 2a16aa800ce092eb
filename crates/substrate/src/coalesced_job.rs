//! A background job that runs at most once at a time. A call while it runs is not lost: it makes the job run again.

use ecotone_sys::primitive::Mutex;

/// The state of the job.
#[derive(Debug, Default)]
pub struct CoalescedJob(Mutex<State>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Scheduled,
    Running,
    /// Called for while it ran.
    RunningAgain,
}

impl CoalescedJob {
    /// Calls for the job. Returns whether the caller must schedule it.
    #[must_use = "it is not scheduled by this"]
    pub fn request(&self) -> bool {
        let mut state = self.0.lock();
        let (next, schedule) = match *state {
            State::Idle => (State::Scheduled, true),
            State::Running => (State::RunningAgain, false),
            same => (same, false),
        };
        *state = next;
        schedule
    }

    /// Whether it neither runs nor is scheduled.
    pub fn is_idle(&self) -> bool {
        *self.0.lock() == State::Idle
    }

    /// The scheduled job begins.
    pub fn begin(&self) {
        *self.0.lock() = State::Running;
    }

    /// The job has ended. Returns whether the caller must schedule it again.
    #[must_use = "it is not scheduled by this"]
    pub fn end(&self) -> bool {
        let mut state = self.0.lock();
        let again = *state == State::RunningAgain;
        *state = if again { State::Scheduled } else { State::Idle };
        again
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn one_job_runs_at_a_time_and_a_call_while_it_runs_is_not_lost() {
        let single = CoalescedJob::default();
        assert!(single.request());
        assert!(!single.request(), "it is scheduled");
        single.begin();
        assert!(!single.request() && !single.request(), "it is running");
        assert!(single.end(), "it was called for meanwhile");
        assert!(!single.request(), "it is scheduled");
        single.begin();
        assert!(!single.end() && single.is_idle());
        assert!(single.request() && !single.is_idle());
    }
}
