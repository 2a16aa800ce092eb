//! Flush: makes applied writes durable in the files (hash.md, "Logged and unlogged keyspaces").

use ecotone_substrate::{Result, Seq};

use super::{
    cold::Tier,
    install::Files,
    log::{Address, HotLog, PAGE},
};

/// Makes all applied records durable whose sequence is below `below`. Records without a sequence are below all.
pub(super) fn flush(log: &HotLog, cold: &Tier, files: &Files, below: Seq) -> Result<()> {
    let until = if files.context().logged { end_of(log, below) } else { Some(promise(log, cold, files)) };
    let durable = log.bounds().durable();
    let Some(until) = until.filter(|until| *until > durable) else { return Ok(()) };
    let context = files.context();
    let began = context.shared.clock.now_for_log();
    log.freeze(until);
    files.write_durably(log, until)?;
    tracing::debug!(
        keyspace = context.keyspace,
        written = until.get() - durable.get(),
        took = ?context.shared.clock.since(began),
        "flushed the hot log"
    );
    Ok(())
}

/// The page boundary behind the last record that is not durable and has a sequence below `below`.
fn end_of(log: &HotLog, below: Seq) -> Option<Address> {
    let until = log.last_below(below)?.plus(PAGE);
    Some(if until < log.tail() { until } else { log.close_page() })
}

/// Closes the page at the end of the log and promises that all below is durable soon. It takes the compaction lock
/// first: a running compaction may drop a record for a newer one that is not durable yet, so it has to end before.
fn promise(log: &HotLog, cold: &Tier, files: &Files) -> Address {
    let _guard = cold.compaction_lock();
    let end = log.close_page();
    files.promise(end);
    end
}
