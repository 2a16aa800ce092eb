//! Whether the database may still write. The first failed write or sync stops writing for good.

use std::sync::{Arc, OnceLock};

use ecotone_sys::primitive::Mutex;

use crate::{Error, Result};

/// The health of one database, shared by everything that writes.
#[derive(Debug, Default)]
pub struct Health {
    cause: OnceLock<Arc<Error>>,
    postponed: Mutex<Postponed>,
}

/// Background work that was postponed, since memory or space was short.
#[derive(Debug, Clone, Default)]
pub struct Postponed {
    /// Number of postponements.
    pub times: u64,
    /// The work that was postponed last, and why.
    pub last: Option<(&'static str, Error)>,
}

impl Health {
    /// Stops all writing, with `error` as the cause, unless it is stopped already. A shortage of space or memory, and
    /// calls refused after a close, happen before any promise and do not poison. Returns the error, for the caller to
    /// return.
    pub fn poison(&self, error: Error) -> Error {
        let harmless = error.is_shortage() || matches!(error, Error::Poisoned { .. } | Error::Closed { .. });
        if !harmless && self.cause.set(Arc::new(error.clone())).is_ok() {
            tracing::error!(%error, "the database stops writing");
        }
        error
    }

    /// Reports failed background work. Writing stops, unless memory or space was short. Then the work is tried again
    /// later, and the log and the statistics report it.
    pub fn postpone(&self, what: &'static str, error: Error) -> Error {
        if error.is_shortage() {
            let mut postponed = self.postponed.lock();
            postponed.times += 1;
            let is_new = postponed.last.as_ref().is_none_or(|(last, _)| *last != what);
            // Reported rarely for a row of the same failures, since the work is tried again several times a second.
            if is_new || postponed.times.is_power_of_two() {
                tracing::warn!(%error, times = postponed.times, "put off: {what}");
            }
            postponed.last = Some((what, error.clone()));
        }
        self.poison(error)
    }

    /// Postponed work so far.
    pub fn postponed(&self) -> Postponed {
        self.postponed.lock().clone()
    }

    /// Runs `work`. If it panics, writing stops, since part of its effect may be there; the panic goes on.
    pub fn unless_panics<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let armed = Armed { health: self, what };
        let done = work();
        std::mem::forget(armed);
        done
    }

    /// Fails with the cause if writing has stopped.
    pub fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Why writing has stopped, if it has.
    pub fn cause(&self) -> Option<Arc<Error>> {
        self.cause.get().cloned()
    }
}

/// Poisons when it is dropped, which happens in a panic alone.
struct Armed<'a> {
    health: &'a Health,
    what: &'static str,
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.health.poison(Error::Invalid(format!("{} panicked", self.what)));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_poisons_and_an_end_does_not() {
        let health = Health::default();
        assert_eq!(health.unless_panics("adding", || 1 + 1), 2);
        assert!(health.check().is_ok());
        let panicked = catch_unwind(AssertUnwindSafe(|| health.unless_panics("adding", || panic!("on purpose"))));
        assert!(panicked.is_err() && health.check().unwrap_err().to_string().contains("adding panicked"));
    }
}
