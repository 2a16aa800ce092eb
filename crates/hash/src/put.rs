//! Writes to unlogged keyspaces, including admission (hash.md, "Operations").

use ecotone_engine::contract::Operation;
use ecotone_substrate::Result;

use super::Hash;

impl Hash {
    /// Applies the operation.
    pub(crate) fn put(&self, operation: Operation<'_>) -> Result<()> {
        let key = self.key(operation.key);
        loop {
            let done = self.upsert(&key, operation.value, &self.domain.pin());
            match done {
                Ok(_) => {
                    self.deletes.count(operation.value.is_none());
                    return Ok(());
                }
                Err(lack) => self.satisfy(lack)?,
            }
        }
    }
}
