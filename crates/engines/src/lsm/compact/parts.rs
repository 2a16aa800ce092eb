//! The parts of a job, which several threads make (decision 16, invariants 5 to 9).

use std::{mem, result, sync::Arc};

use ecotone_substrate::{Error, Result};
use ecotone_sys::primitive::{Condvar, Mutex, MutexGuard};

/// What is made in parts, which share it and change nothing of it.
pub(in crate::lsm) trait Work: Send + Sync {
    /// What comes of a part.
    type Made: Send;

    /// Makes a part. It asks now and then whether it `goes_on`, and ends with any error if not. What it leaves of an
    /// error is nothing.
    fn make(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<Self::Made>;
}

/// What came of the parts of a job, and the first error, if there was any.
pub(in crate::lsm) type Ended<M> = result::Result<Vec<M>, (Error, Vec<M>)>;

/// Those of one job: each is made once, by the thread of the job or by one that helps it.
pub(in crate::lsm) struct Parts<W: Work> {
    state: Mutex<State<W>>,
    /// Nobody is at work any more.
    at_rest: Condvar,
}

struct State<W: Work> {
    /// Until the job has ended, so that who comes late keeps no table from being removed.
    work: Option<Arc<W>>,
    /// Those that nobody has, the first one last.
    left: Vec<usize>,
    /// Those that were refused memory. The job's thread makes them when nobody else is at work.
    refused: Vec<usize>,
    /// Those that are being made.
    begun: usize,
    made: Vec<(usize, W::Made)>,
    /// What went wrong first. It ends all.
    failure: Option<Error>,
    /// What is refused memory now is not tried again.
    is_last_try: bool,
}

impl<W: Work> Parts<W> {
    /// So many, of which nobody has any.
    pub(in crate::lsm) fn new(work: W, count: usize) -> Arc<Parts<W>> {
        let (left, is_last_try) = ((0..count).rev().collect(), count == 1);
        let (work, refused, made) = (Some(Arc::new(work)), Vec::new(), Vec::new());
        let state = State { work, left, refused, begun: 0, made, failure: None, is_last_try };
        Arc::new(Parts { state: Mutex::new(state), at_rest: Condvar::new() })
    }

    /// Makes parts as long as there are any that nobody has, and nobody was refused memory.
    pub(in crate::lsm) fn help(&self) {
        while let Some(taken) = self.take(|state| state.refused.is_empty() && !state.is_last_try) {
            taken.make();
        }
    }

    /// Makes what nobody else makes, and waits for those parts that others have begun. What came of them, in their
    /// order.
    ///
    /// # Errors
    /// The first one, with what came of other parts. Nothing is made any more then.
    pub(in crate::lsm) fn make_all(&self) -> Ended<W::Made> {
        let end = End(self);
        self.make_left();
        let mut state = self.rest();
        state.is_last_try = true;
        state.left = mem::take(&mut state.refused);
        drop(state);
        self.make_left();
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

    fn make_left(&self) {
        while let Some(taken) = self.take(|_| true) {
            taken.make();
        }
    }

    /// A part that nobody has, if all goes well and the caller `may` have one.
    fn take(&self, may: impl FnOnce(&State<W>) -> bool) -> Option<Taken<'_, W>> {
        let mut state = self.state.lock();
        if state.failure.is_some() || !may(&state) {
            return None;
        }
        let work = state.work.clone()?;
        let part = state.left.pop()?;
        state.begun += 1;
        Some(Taken { parts: self, part, work: Some(work), made: None })
    }

    fn goes_on(&self) -> bool {
        self.state.lock().failure.is_none()
    }

    /// Waits until nobody is at work.
    fn rest(&self) -> MutexGuard<'_, State<W>> {
        let mut state = self.state.lock();
        while state.begun > 0 {
            self.at_rest.wait(&mut state);
        }
        state
    }
}

/// Ends the job, also if its thread panics: nothing is begun any more, and who has begun has ended.
struct End<'p, W: Work>(&'p Parts<W>);

impl<W: Work> Drop for End<'_, W> {
    fn drop(&mut self) {
        let Parts { state, .. } = self.0;
        state.lock().left.clear();
        let work = self.0.rest().work.take();
        drop(work);
    }
}

/// A part that is being made.
struct Taken<'p, W: Work> {
    parts: &'p Parts<W>,
    part: usize,
    work: Option<Arc<W>>,
    /// Nothing if it panicked.
    made: Option<Result<W::Made>>,
}

impl<W: Work> Taken<'_, W> {
    fn make(mut self) {
        let goes_on = || self.parts.goes_on();
        self.made = self.work.as_ref().map(|work| work.make(self.part, &goes_on));
    }
}

impl<W: Work> Drop for Taken<'_, W> {
    fn drop(&mut self) {
        // Before the job ends: it keeps tables.
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
