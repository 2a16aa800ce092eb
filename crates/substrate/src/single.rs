//! A job of the background of which there is one at a time, and a call for which is not lost while it runs.

use ecotone_sys::primitive::Mutex;

/// Where such a job is.
#[derive(Debug, Default)]
pub struct Single(Mutex<State>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Scheduled,
    Running,
    /// Was called for while it ran.
    RunningAgain,
}

impl Single {
    /// There is something to do. Whether the job is to be scheduled for it.
    #[must_use = "it is not scheduled by this"]
    pub fn call(&self) -> bool {
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

    /// The job has ended. Whether it is to be scheduled again.
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
        let single = Single::default();
        assert!(single.call());
        assert!(!single.call(), "it is scheduled");
        single.begin();
        assert!(!single.call() && !single.call(), "it is running");
        assert!(single.end(), "it was called for meanwhile");
        assert!(!single.call(), "it is scheduled");
        single.begin();
        assert!(!single.end() && single.is_idle());
        assert!(single.call() && !single.is_idle());
    }
}
