//! Closing of a database (`docs/design/ownership.md`, rule 3).

use std::sync::atomic::Ordering;

use ecotone_engine::contract::Maintained;

use super::{checkpoint::Checkpoint, state::DatabaseState};
use crate::{Durability, Error, Result};

impl DatabaseState {
    /// Flushes, ends background work, stores a last checkpoint, and releases the files. Only the first call does this;
    /// later calls wait for it.
    pub(crate) fn shut_down(&self) -> Result<()> {
        if self.life.is_over() {
            return Err(Error::Forked);
        }
        let _closing = self.closing.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Runs after a panic as well.
        let _end = End(self);
        self.shut_down_cleanly()
    }

    /// Flushes, ends background work, and stores a last checkpoint. Writes nothing if nothing was written since a clean
    /// shutdown. On a full disk, writes without space in the files stay in the log, and the next open replays them.
    fn shut_down_cleanly(&self) -> Result<()> {
        let flushed = self
            .health
            .check()
            .and_then(|()| self.before_close())
            .and_then(|()| self.retry_without_memory(|| self.flush_spaces()));
        self.scheduler.stop();
        let last = || {
            self.health.unless_panics("the last checkpoint", || {
                self.retry_without_memory(|| self.checkpoint(Checkpoint::AtShutdown))
            })
        };
        match flushed.and_then(|()| last()) {
            Err(error) if error.is_no_space() && self.keyspaces_in_use().iter().all(|space| space.logged) => {
                tracing::warn!(%error, "closed on a full disk: the next opening replays the log");
                self.wal.commit(self.wal.tail(), Durability::Sync)
            }
            done => done,
        }
    }

    /// Lets engines do the work that shortens the next open.
    fn before_close(&self) -> Result<()> {
        if self.is_untouched(&self.manifest.lock()) {
            return Ok(());
        }
        self.health.unless_panics("the work before closing", || {
            let spaces = self.keyspaces_in_use();
            spaces.iter().filter_map(|space| space.maintenance()).try_for_each(Maintained::before_close)
        })
    }
}

/// Ends an open database when dropped, after a panic as well. The threads end before the objects that they use.
struct End<'i>(&'i DatabaseState);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.scheduler.stop();
        self.0.storage.close();
    }
}
