//! Patience of a call that finds no memory: what others hold for a transfer is free in a moment, so it waits, holding
//! nothing, and begins again (`docs/design/waiting.md`, rule 10).

use std::time::Duration;

use ecotone_substrate::held::{self, Wait};

use crate::{Error, Result, database::Inner};

/// The longest wait, and the time between two tries.
const PATIENCE: Duration = Duration::from_secs(5);
const TRY_AGAIN: Duration = Duration::from_millis(1);

impl Inner {
    /// Does `call` again as long as it finds no memory, for some seconds. It must have done nothing then, and hold
    /// nothing.
    ///
    /// # Errors
    /// Those of the call.
    #[inline]
    pub(crate) fn patiently<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        held::about_to_wait(Wait::Memory);
        match call() {
            Err(Error::Memory { .. }) if self.scheduler.is_threaded() => self.try_again(call),
            answer => answer,
        }
    }

    #[cold]
    fn try_again<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        let clock = &self.shared.clock;
        let end = clock.now().saturating_add(PATIENCE.as_nanos() as u64);
        loop {
            clock.sleep(TRY_AGAIN);
            match call() {
                Err(Error::Memory { .. }) if clock.now() < end => {}
                answer => return answer,
            }
        }
    }
}
