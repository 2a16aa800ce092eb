//! Files that nothing names yet.

use ecotone_substrate::{Result, environment::Environment};

use crate::hash::cold::{Name, Run};

/// Finished runs, until a structural record names them. Dropped before that, they go.
#[derive(Debug)]
pub(super) struct Unnamed<'e> {
    environment: &'e Environment,
    names: Vec<Name>,
}

impl<'e> Unnamed<'e> {
    pub(super) fn new(environment: &'e Environment) -> Unnamed<'e> {
        Unnamed { environment, names: Vec::new() }
    }

    /// Takes care of a run that was finished.
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

    /// A record names them.
    pub(super) fn named(&mut self) {
        self.names.clear();
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        // What went wrong is known. A file that stays is a stray, which the next opening removes.
        self.names.iter().for_each(|name| drop(self.environment.storage.remove(name.file())));
    }
}
