//! Runs the subtasks of a job on the job's thread and on helpers. Each subtask runs once, or again if it was refused
//! memory. The first error stops the job, and the job returns only when no thread works for it any more
//! (compaction-pace.md, invariants 8 to 12).

use std::{mem, result, sync::Arc};

use ecotone_substrate::{Error, Result};
use ecotone_sys::primitive::{Condvar, Mutex, MutexGuard};

/// A job that runs as subtasks. They share it and do not change it.
pub(crate) trait ParallelJob: Send + Sync {
    /// The result of a subtask.
    type Output: Send;

    /// Runs a subtask. It calls `goes_on` now and then, and returns any error if that is false. After an error it
    /// leaves nothing behind.
    fn run_part(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<Self::Output>;
}

/// The results of all subtasks, or the first error with the results of those that succeeded.
pub(crate) type JobResult<M> = result::Result<Vec<M>, (Error, Vec<M>)>;

/// The subtasks of one job. Each is run by the job's thread or by a helper.
pub(crate) struct Subtasks<W: ParallelJob> {
    state: Mutex<SubtaskState<W>>,
    /// Notified when no subtask is running.
    at_rest: Condvar,
}

struct SubtaskState<W: ParallelJob> {
    /// `None` once the job has ended, so that a late helper keeps no table from being deleted.
    work: Option<Arc<W>>,
    /// Subtasks that no thread has taken, the first one last.
    left: Vec<usize>,
    /// Subtasks that were refused memory. The job's thread runs them again when no other is running.
    refused: Vec<usize>,
    /// The number of running subtasks.
    begun: usize,
    made: Vec<(usize, W::Output)>,
    /// The first error. It stops the job.
    failure: Option<Error>,
    /// A subtask that is refused memory now is not retried.
    is_last_try: bool,
}

impl<W: ParallelJob> Subtasks<W> {
    /// `count` subtasks, none of them taken.
    pub(crate) fn new(work: W, count: usize) -> Arc<Subtasks<W>> {
        let (left, is_last_try) = ((0..count).rev().collect(), count == 1);
        let (work, refused, made) = (Some(Arc::new(work)), Vec::new(), Vec::new());
        let state = SubtaskState { work, left, refused, begun: 0, made, failure: None, is_last_try };
        Arc::new(Subtasks { state: Mutex::new(state), at_rest: Condvar::new() })
    }

    /// Runs subtasks until none is left, or one was refused memory.
    pub(crate) fn help(&self) {
        while let Some(taken) = self.take(|state| state.refused.is_empty() && !state.is_last_try) {
            taken.make();
        }
    }

    /// Runs the subtasks that no helper takes, and waits for those that helpers have begun. Returns the results in
    /// order.
    ///
    /// # Errors
    /// The first one, with the results of other subtasks. No subtask begins after it.
    pub(crate) fn run_all(&self) -> JobResult<W::Output> {
        let end = FinishGuard(self);
        self.run_remaining();
        let mut state = self.rest();
        state.is_last_try = true;
        state.left = mem::take(&mut state.refused);
        drop(state);
        self.run_remaining();
        drop(end);
        let mut state = self.state.lock();
        let mut made = mem::take(&mut state.made);
        made.sort_unstable_by_key(|(part, _)| *part);
        let made = made.into_iter().map(|(_, made)| made).collect();
        match state.failure.take() {
            None => Ok(made),
            Some(failure) => Err((failure, made)),
        }
    }

    fn run_remaining(&self) {
        while let Some(taken) = self.take(|_| true) {
            taken.make();
        }
    }

    /// Takes a subtask, if none has failed and `may` allows it.
    fn take(&self, may: impl FnOnce(&SubtaskState<W>) -> bool) -> Option<RunningSubtask<'_, W>> {
        let mut state = self.state.lock();
        if state.failure.is_some() || !may(&state) {
            return None;
        }
        let work = state.work.clone()?;
        let part = state.left.pop()?;
        state.begun += 1;
        Some(RunningSubtask { parts: self, part, work: Some(work), made: None })
    }

    fn goes_on(&self) -> bool {
        self.state.lock().failure.is_none()
    }

    /// Waits until no subtask is running.
    fn rest(&self) -> MutexGuard<'_, SubtaskState<W>> {
        let mut state = self.state.lock();
        while state.begun > 0 {
            self.at_rest.wait(&mut state);
        }
        state
    }
}

/// Ends the job, also if its thread panics: no subtask begins any more, and all that have begun have ended.
struct FinishGuard<'p, W: ParallelJob>(&'p Subtasks<W>);

impl<W: ParallelJob> Drop for FinishGuard<'_, W> {
    fn drop(&mut self) {
        let Subtasks { state, .. } = self.0;
        state.lock().left.clear();
        let work = self.0.rest().work.take();
        drop(work);
    }
}

/// A running subtask.
struct RunningSubtask<'p, W: ParallelJob> {
    parts: &'p Subtasks<W>,
    part: usize,
    work: Option<Arc<W>>,
    /// `None` if the subtask panicked.
    made: Option<Result<W::Output>>,
}

impl<W: ParallelJob> RunningSubtask<'_, W> {
    fn make(mut self) {
        let goes_on = || self.parts.goes_on();
        self.made = self.work.as_ref().map(|work| work.run_part(self.part, &goes_on));
    }
}

impl<W: ParallelJob> Drop for RunningSubtask<'_, W> {
    fn drop(&mut self) {
        // Dropped before the job ends, since it keeps tables alive.
        self.work = None;
        let panicked = || Err(Error::Invalid("a part of a job panicked".to_owned()));
        let made = self.made.take().unwrap_or_else(panicked);
        let mut state = self.parts.state.lock();
        match made {
            Ok(made) => state.made.push((self.part, made)),
            Err(Error::Memory { .. }) if !state.is_last_try => state.refused.push(self.part),
            Err(error) => _ = state.failure.get_or_insert(error),
        }
        state.begun -= 1;
        if state.begun == 0 {
            self.parts.at_rest.notify_all();
        }
    }
}
