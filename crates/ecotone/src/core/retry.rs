//! Retries of a call that finds no memory. Memory held for a transfer is free in a moment, so the call waits without
//! holding anything and starts over (`docs/design/waiting.md`, rule 10).

use std::time::Duration;

use ecotone_substrate::lock_rank::{self, Wait};

use super::state::DatabaseState;
use crate::{Error, Result};

/// The longest wait, and the time between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(5);
const TRY_AGAIN: Duration = Duration::from_millis(1);

impl DatabaseState {
    /// Repeats `call` while it finds no memory, for a few seconds. A call that fails so must have done nothing and must
    /// hold nothing.
    ///
    /// # Errors
    /// The errors of `call`.
    #[inline]
    pub(crate) fn retry_without_memory<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        lock_rank::about_to_wait(Wait::Memory);
        match call() {
            Err(Error::Memory { .. }) if self.scheduler.is_threaded() => self.try_again(call),
            answer => answer,
        }
    }

    #[cold]
    fn try_again<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        let clock = &self.shared.clock;
        let end = clock.now().saturating_add(MAX_WAIT.as_nanos() as u64);
        loop {
            clock.sleep(TRY_AGAIN);
            match call() {
                Err(Error::Memory { .. }) if clock.now() < end => {}
                answer => return answer,
            }
        }
    }
}
