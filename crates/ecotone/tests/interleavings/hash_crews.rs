//! Crews on the hash engine, with and without a log. Its memory is so small in such a build that in most schedules
//! frames leave it, copies are evicted, the hot log is compacted, partitions are merged, and the index grows.

use std::sync::Arc;

use ecotone::internal::{engine::contract::EngineFactory, hash::HashFamily};
use ecotone_testkit::suite::{
    Kind,
    crew::{
        Crew,
        Role::{Batcher, Evicter, Flusher, Merger, Reader, Scanner, Updater, Writer},
    },
};

use super::store::Simulated;

/// Gets, puts and deletes of keys that have entries together.
pub(super) const POINTS: Crew =
    Crew { threads: &[(Reader, 8), (Reader, 8), (Writer, 8), (Writer, 8), (Flusher, 3)], registers: 12, crash: false };
/// Writes that read beside writes that do not.
pub(super) const UPDATES: Crew = Crew {
    threads: &[(Updater, 8), (Updater, 8), (Writer, 6), (Batcher, 4), (Flusher, 3)],
    registers: 4,
    crash: false,
};
/// Counters and lists, which grow beyond the place of the record while others add, beside writes that have all of it
/// compacted.
pub(super) const MERGES: Crew = Crew {
    threads: &[(Merger, 10), (Merger, 10), (Merger, 8), (Writer, 12), (Flusher, 8)],
    registers: 4,
    crash: false,
};
/// The same, crashed in the end.
pub(super) const CRASHED_MERGES: Crew =
    Crew { threads: &[(Merger, 10), (Merger, 10), (Writer, 12), (Flusher, 5)], registers: 4, crash: true };
/// Reads of more than there may be copies of, beside writes of the same chains, and another cache that wants the
/// memory.
pub(super) const COPIES: Crew = Crew {
    threads: &[(Reader, 24), (Reader, 24), (Updater, 4), (Writer, 4), (Flusher, 3), (Evicter, 3)],
    registers: 24,
    crash: false,
};
/// Copies that come and go beside updates of fewer keys, which are in the log, in runs and copied in turn: enough to
/// fill a frame of each keyspace.
pub(super) const EVICTION: Crew = Crew {
    threads: &[(Reader, 32), (Reader, 32), (Updater, 6), (Flusher, 3), (Evicter, 3)],
    registers: 16,
    crash: false,
};
/// Two who have pages frozen and written, and so compacted, beside all that others do.
pub(super) const COMPACTION: Crew =
    Crew { threads: &[(Flusher, 4), (Flusher, 4), (Writer, 8), (Updater, 6), (Reader, 8)], registers: 6, crash: false };
/// Many keys, for which the index grows from one bucket.
pub(super) const GROWTH: Crew = Crew {
    threads: &[(Writer, 16), (Writer, 16), (Updater, 8), (Reader, 8), (Flusher, 2)],
    registers: 64,
    crash: false,
};
/// Walks beside writes that append, and truncations.
pub(super) const WALKS: Crew = Crew {
    threads: &[(Scanner, 5), (Scanner, 5), (Writer, 14), (Updater, 6), (Flusher, 5)],
    registers: 8,
    crash: false,
};

pub(super) fn logged(workers: usize) -> Simulated {
    Simulated::new(Kind::Hashed, || Arc::new(HashFamily::busy()) as Arc<dyn EngineFactory>).workers(workers)
}

pub(super) fn unlogged(workers: usize) -> Simulated {
    logged(workers).unlogged()
}
