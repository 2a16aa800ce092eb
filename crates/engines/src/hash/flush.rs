//! Bringing what was written into the files (decision 9, "Durability, logged and not").

use ecotone_substrate::{Result, Seq};

use super::{
    Hash,
    install::Files,
    log::{Address, PAGE},
};

impl Hash {
    /// Has everything on disk, synced, that was applied before and has a sequence below `below`; what has none is below
    /// all.
    pub(super) fn flush(&self, files: &Files, below: Seq) -> Result<()> {
        let until = if files.context().logged { self.end_of(below) } else { Some(self.promise(files)) };
        let durable = self.log.bounds().durable();
        let Some(until) = until.filter(|until| *until > durable) else { return Ok(()) };
        let context = files.context();
        let began = context.shared.clock.now_for_log();
        self.log.freeze(until);
        files.write_durably(&self.log, until)?;
        tracing::debug!(
            keyspace = context.keyspace,
            written = until.get() - durable.get(),
            took = ?context.shared.clock.since(began),
            "flushed the hot log"
        );
        Ok(())
    }

    /// The page boundary behind the last record that is not durable and has a sequence below this one.
    fn end_of(&self, below: Seq) -> Option<Address> {
        let until = self.log.last_below(below)?.plus(PAGE);
        Some(if until < self.log.tail() { until } else { self.log.close_page() })
    }

    /// Where the log ends. A compaction that has begun may leave something behind for what will not be durable soon, so
    /// it comes to its end before.
    fn promise(&self, files: &Files) -> Address {
        let _turn = self.cold.compaction_turn();
        let end = self.log.close_page();
        files.promise(end);
        end
    }
}
