//! Whether the database may still write. The first failed write or sync decides, for good.

use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// The health of one database, shared by everything that writes.
#[derive(Debug, Default)]
pub struct Health {
    cause: OnceLock<Arc<Error>>,
}

impl Health {
    /// Stops all writing, with `error` as the cause, unless it is stopped already. `NoSpace` and want of
    /// memory precede every promise and do not poison. Gives back the error, for the caller to return.
    pub fn poison(&self, error: Error) -> Error {
        let harmless = matches!(error, Error::NoSpace { .. } | Error::Memory { .. } | Error::Poisoned { .. });
        if !harmless && self.cause.set(Arc::new(error.clone())).is_ok() {
            tracing::error!(%error, "the database stops writing");
        }
        error
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
