//! Whether the database may still write. The first failed write or sync decides, for good.

use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// The health of one database, shared by everything that writes.
#[derive(Debug, Default)]
pub struct Health {
    cause: OnceLock<Arc<Error>>,
}

impl Health {
    /// Stops all writing, with `error` as the cause, unless it is stopped already. Want of space or memory and what is
    /// refused since something was closed precede every promise and do not poison. Gives back the error, for the caller to return.
    pub fn poison(&self, error: Error) -> Error {
        let harmless = error.is_shortage() || matches!(error, Error::Poisoned { .. } | Error::Closed { .. });
        if !harmless && self.cause.set(Arc::new(error.clone())).is_ok() {
            tracing::error!(%error, "the database stops writing");
        }
        error
    }

    /// Does `work`; if it panics, writing stops, since part of its effect may be there. The panic goes on.
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

/// Poisons when it is dropped, which only a panic does.
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
