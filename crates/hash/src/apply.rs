//! Applies writes of logged keyspaces, which were admitted before (hash.md, "Logged and unlogged keyspaces").

use ecotone_engine::contract::Operation;
use ecotone_substrate::{Error, Seq, health::Health};
use ecotone_sys::primitive::thread;

use super::{Hash, reservations::LOOK_AGAIN};

impl Hash {
    /// Applies an operation whose sequence number in the log of the database is `seq`. Its reservation covers the
    /// memory, unless it meets more concurrent writes than admission has counted on; then it waits for more memory. It
    /// gives up if writing has stopped, since no caller is told that it is done, and if the keyspace was dropped or the
    /// database closed, since nothing reads it.
    pub(super) fn apply(&self, seq: Seq, operation: Operation<'_>, health: &Health) {
        let key = self.key(operation.key);
        loop {
            let done = self.upsert(&key, operation.value, &self.domain.pin());
            match done {
                Ok(appended) => {
                    self.deletes.count(operation.value.is_none());
                    appended.iter().for_each(|address| self.log.note(*address, seq));
                    return;
                }
                Err(lack) => match self.satisfy(lack) {
                    Ok(()) => {}
                    Err(Error::Closed { .. }) => return,
                    Err(_) if health.cause().is_some() => return,
                    Err(_) => thread::sleep(LOOK_AGAIN),
                },
            }
        }
    }
}
