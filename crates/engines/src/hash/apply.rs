//! Writes of logged keyspaces, which were admitted before (decision 9, "Durability, logged and not").

use ecotone_substrate::{Error, Seq, health::Health};
use ecotone_sys::primitive::thread;

use super::{Hash, room::LOOK_AGAIN};
use crate::engine::Operation;

impl Hash {
    /// Does an operation whose place in the log of the database is `seq`. It finds the room that it needs, as long as
    /// it meets no more of others than its admission has counted on; else it waits for more. If writing has stopped it
    /// gives up, since nobody will be told that it is done, and if the keyspace was dropped or the database closed,
    /// since nobody will read it.
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
                Err(lack) => match self.make_room(lack) {
                    Ok(()) => {}
                    Err(Error::Closed { .. }) => return,
                    Err(_) if health.cause().is_some() => return,
                    Err(_) => thread::sleep(LOOK_AGAIN),
                },
            }
        }
    }
}
