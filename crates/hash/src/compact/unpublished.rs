//! Finished files that the structure does not name yet.

use ecotone_substrate::{Result, environment::Environment};

use crate::cold::{FileIdentity, Run};

/// Finished runs, until a structure record names them. Dropping this before that removes them.
#[derive(Debug)]
pub(super) struct UnpublishedFiles<'e> {
    environment: &'e Environment,
    names: Vec<FileIdentity>,
}

impl<'e> UnpublishedFiles<'e> {
    pub(super) fn new(environment: &'e Environment) -> UnpublishedFiles<'e> {
        UnpublishedFiles { environment, names: Vec::new() }
    }

    /// Adds a finished run.
    pub(super) fn push(&mut self, run: &Run) {
        self.names.push(run.name());
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> Result<()> {
        if self.names.is_empty() {
            return Ok(());
        }
        self.environment.storage.sync_dir().map_err(|e| self.environment.health.poison(e))
    }

    /// A structure record names the runs now: they are kept.
    pub(super) fn published(&mut self) {
        self.names.clear();
    }
}

impl Drop for UnpublishedFiles<'_> {
    fn drop(&mut self) {
        // The caller has the first error. A file that stays is an orphan, which the next opening removes.
        self.names.iter().for_each(|name| drop(self.environment.storage.remove(name.file())));
    }
}
