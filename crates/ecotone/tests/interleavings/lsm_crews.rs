//! Crews on the lsm engine, with and without a log. Its sizes are so small in such a build that memtables are flushed,
//! and tables compacted, in most schedules.

use std::sync::Arc;

use ecotone::internal::{engine::contract::EngineFactory, lsm::LsmFamily, tree::TreeFamily};
use ecotone_testkit::suite::{
    Kind,
    crew::{
        Crew,
        Role::{Batcher, Evicter, Flusher, Reader, Scanner, Updater, Writer},
    },
};

use super::store::Simulated;

/// Gets beside writes, flushes and compactions of the tables that they read.
pub(super) const GETS: Crew = Crew {
    threads: &[(Reader, 8), (Reader, 8), (Writer, 8), (Flusher, 6), (Flusher, 6), (Evicter, 2)],
    registers: 8,
    crash: false,
};
/// Scans between memtables and tables, both of which are replaced meanwhile.
pub(super) const RANGES: Crew = Crew {
    threads: &[(Scanner, 5), (Scanner, 5), (Writer, 8), (Flusher, 8), (Evicter, 2)],
    registers: 8,
    crash: false,
};
/// Writes that read beside batches and writes that do not.
pub(super) const CHANGES: Crew = Crew {
    threads: &[(Updater, 8), (Updater, 8), (Writer, 6), (Batcher, 4), (Flusher, 8)],
    registers: 4,
    crash: false,
};
/// Flushes of two threads while memtables are written, and a crash.
pub(super) const FLUSHES: Crew =
    Crew { threads: &[(Flusher, 6), (Flusher, 6), (Writer, 8), (Writer, 8), (Batcher, 4)], registers: 8, crash: true };

pub(super) fn with_log(workers: usize) -> Simulated {
    let family = || Arc::new(LsmFamily::tiny().behind(Arc::new(TreeFamily::default()))) as Arc<dyn EngineFactory>;
    Simulated::new(Kind::Ordered, family).workers(workers)
}

pub(super) fn without_log(workers: usize) -> Simulated {
    with_log(workers).unlogged()
}
