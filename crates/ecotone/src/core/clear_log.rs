//! Background work while nothing is written. It flushes the writes that only the log has, and tombstones that keep much
//! dead data in files. So disk space is freed and the next open has little to replay (lsm.md, "Idle keyspaces").

use std::sync::Arc;

use ecotone_substrate::{
    Seq,
    scheduler::{Priority, Tick},
};

use super::{checkpoint::Checkpoint, keyspace_state::KeyspaceState, state::DatabaseState};
use crate::Result;

/// Bytes of log that are not worth a flush.
const LITTLE: u64 = 4 << 20;

/// Has the scheduler check for writes as long as the database is open.
pub(crate) fn watch_writes(state: &Arc<DatabaseState>) {
    let weak = Arc::downgrade(state);
    state.scheduler.add_tick(move || weak.upgrade().map_or(Tick::Over, |state| state.tick()));
}

impl DatabaseState {
    fn tick(self: &Arc<Self>) -> Tick {
        if self.health.check().is_err() {
            return Tick::Over;
        }
        if !self.wal.has_begun() {
            return Tick::Idle;
        }
        if self.idle_work.tick(self.wal.tail(), self.garbage()) {
            self.request_clearing();
        }
        if self.idle_work.is_idle() { Tick::Idle } else { Tick::InUse }
    }

    fn garbage(&self) -> u64 {
        self.spaces.read().values().map(|space| space.reclaimable_deletes()).sum()
    }

    fn request_clearing(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.idle_work.job.request(&self.scheduler, Priority::Checkpoint, "clear the log", move || {
            let Some(state) = weak.upgrade() else { return };
            if let Err(error) = state.clear_log() {
                // A later tick may try again.
                state.idle_work.reset();
                drop(state.health.postpone("clearing the log", error));
            }
        });
    }

    fn clear_log(&self) -> Result<()> {
        if self.wal.used() > LITTLE || self.garbage() > 0 {
            let keeps = |space: &Arc<KeyspaceState>| space.logged || space.reclaimable_deletes() > 0;
            let spaces: Vec<_> = self.keyspaces_in_use().into_iter().filter(keeps).collect();
            spaces.iter().filter_map(|space| space.maintenance()).for_each(|engine| engine.begin_flush(Seq::MAX));
            for space in spaces {
                if !self.idle_work.is_idle() {
                    // Writes have resumed.
                    return Ok(());
                }
                space.engine().flush(Seq::MAX)?;
            }
            self.checkpoint(Checkpoint::InUse)?;
        }
        self.wal.shrink();
        Ok(())
    }
}
