//! A background job that runs at most once at a time. A call while it runs is not lost: it makes the job run again.

use std::sync::{Arc, Weak};

use ecotone_sys::primitive::Mutex;

use crate::scheduler::{Priority, Scheduler};

/// The state of the job.
#[derive(Debug, Default)]
pub struct CoalescedJob(Arc<Mutex<State>>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Scheduled,
    Running,
    /// Called for while it ran.
    RunningAgain,
}

/// One run of the job, which schedules the next one if that was called for meanwhile.
struct Run<W> {
    state: Arc<Mutex<State>>,
    scheduler: Weak<Scheduler>,
    priority: Priority,
    name: &'static str,
    work: W,
}

impl CoalescedJob {
    /// Calls for the job: schedules it, unless it waits for a thread already. If it runs, it runs again afterwards.
    /// `work` may call for its own job. All calls of a job give the same work: that of the first one is run again.
    pub fn request(
        &self,
        scheduler: &Arc<Scheduler>,
        priority: Priority,
        name: &'static str,
        work: impl Fn() + Send + 'static,
    ) {
        let is_idle = {
            let mut state = self.0.lock();
            let before = *state;
            *state = match before {
                State::Idle | State::Scheduled => State::Scheduled,
                State::Running | State::RunningAgain => State::RunningAgain,
            };
            before == State::Idle
        };
        if is_idle {
            let (state, weak) = (self.0.clone(), Arc::downgrade(scheduler));
            Run { state, scheduler: weak, priority, name, work }.schedule(scheduler);
        }
    }

    /// Whether it neither runs nor is scheduled.
    pub fn is_idle(&self) -> bool {
        *self.0.lock() == State::Idle
    }
}

impl<W: Fn() + Send + 'static> Run<W> {
    fn schedule(self, scheduler: &Scheduler) {
        scheduler.spawn(self.priority, self.name, move || self.run());
    }

    fn run(self) {
        *self.state.lock() = State::Running;
        (self.work)();
        let again = {
            let mut state = self.state.lock();
            let again = *state == State::RunningAgain;
            *state = if again { State::Scheduled } else { State::Idle };
            again
        };
        if again && let Some(scheduler) = self.scheduler.upgrade() {
            self.schedule(&scheduler);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_job_runs_at_a_time_and_a_call_while_it_runs_is_not_lost() {
        let scheduler = Scheduler::manual(Arc::default());
        let (job, runs) = (Arc::new(CoalescedJob::default()), Arc::new(AtomicU32::new(0)));
        let request = {
            let (scheduler, job, runs) = (scheduler.clone(), job.clone(), runs.clone());
            move || {
                let (called, runs) = (Arc::downgrade(&job), runs.clone());
                let weak = Arc::downgrade(&scheduler);
                job.request(&scheduler, Priority::Idle, "a job", move || {
                    if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                        let (job, scheduler) = (called.upgrade().unwrap(), weak.upgrade().unwrap());
                        (0..2).for_each(|_| job.request(&scheduler, Priority::Idle, "a job", || unreachable!()));
                        assert_eq!(scheduler.debt(), 1, "it is running");
                    }
                });
            }
        };
        assert!(job.is_idle());
        (0..2).for_each(|_| request());
        assert!(scheduler.debt() == 1 && !job.is_idle(), "it is scheduled");
        assert!(scheduler.run_one());
        request();
        assert!(scheduler.debt() == 1 && !job.is_idle(), "it was called for meanwhile, and is scheduled");
        assert!(scheduler.run_one() && !scheduler.run_one());
        assert!(job.is_idle() && runs.load(Ordering::Relaxed) == 2);
        request();
        assert!(!job.is_idle() && scheduler.run_one() && runs.load(Ordering::Relaxed) == 3);
    }
}
