//! Flush: makes applied writes durable in the files (hash.md, "Logged and unlogged keyspaces").

use ecotone_substrate::{Result, Seq};

use super::{
    Hash,
    install::Files,
    log::{Address, PAGE},
};

impl Hash {
    /// Makes all applied records durable whose sequence is below `below`. Records without a sequence are below all.
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

    /// The page boundary behind the last record that is not durable and has a sequence below `below`.
    fn end_of(&self, below: Seq) -> Option<Address> {
        let until = self.log.last_below(below)?.plus(PAGE);
        Some(if until < self.log.tail() { until } else { self.log.close_page() })
    }

    /// Closes the page at the end of the log and promises that all below is durable soon. It takes the compaction lock
    /// first: a running compaction may drop a record for a newer one that is not durable yet, so it has to end before.
    fn promise(&self, files: &Files) -> Address {
        let _turn = self.cold.compaction_lock();
        let end = self.log.close_page();
        files.promise(end);
        end
    }
}
