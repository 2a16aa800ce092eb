//! Crews on the adaptive engine. A flusher also converts or reactivates a random range, and writes records of random
//! paged ranges to their pages. A hinter leaves the conversions to the keyspace's controller (adaptive-protocol.md,
//! "Proofs").

use std::sync::Arc;

use ecotone::internal::engine::contract::EngineFactory;
use ecotone_testkit::{
    restless::RestlessFamily,
    suite::{
        Kind,
        crew::{
            Crew,
            Role::{Batcher, Evicter, Flusher, Hinter, Reader, Scanner, Updater, Writer},
        },
    },
};

use super::store::Simulated;

/// Gets and writes beside two who change shapes.
pub(super) const SHAPES: Crew = Crew {
    threads: &[(Reader, 8), (Reader, 8), (Writer, 8), (Flusher, 8), (Flusher, 8), (Evicter, 2)],
    registers: 8,
    crash: false,
};
/// Scans, both ways, over bounds of ranges that come and go.
pub(super) const SCANNED_BOUNDS: Crew = Crew {
    threads: &[(Scanner, 5), (Scanner, 5), (Writer, 8), (Flusher, 8), (Flusher, 4), (Evicter, 2)],
    registers: 8,
    crash: false,
};
/// Flushes into pages and into tables beside changes of shape, with writes that read what they find.
pub(super) const MODES: Crew = Crew {
    threads: &[(Updater, 8), (Writer, 8), (Batcher, 4), (Flusher, 10), (Flusher, 10)],
    registers: 6,
    crash: false,
};
/// Changes of shape, and a crash.
pub(super) const CRASHED_SHAPES: Crew =
    Crew { threads: &[(Flusher, 8), (Flusher, 8), (Writer, 8), (Writer, 8), (Batcher, 4)], registers: 8, crash: true };
/// Gets, scans and writes beside ranges that are converted to pages and to tables, piece by piece, after hints.
pub(super) const HINTS: Crew =
    Crew { threads: &[(Hinter, 8), (Reader, 8), (Scanner, 4), (Writer, 8), (Flusher, 6)], registers: 8, crash: false };
/// The same with more writes, and a crash.
pub(super) const CRASHED_HINTS: Crew =
    Crew { threads: &[(Hinter, 8), (Writer, 8), (Writer, 8), (Batcher, 4), (Flusher, 6)], registers: 8, crash: true };

pub(super) fn restless(workers: usize) -> Simulated {
    Simulated::new(Kind::Ordered, || Arc::new(RestlessFamily::tiny()) as Arc<dyn EngineFactory>).workers(workers)
}

pub(super) fn restless_unlogged(workers: usize) -> Simulated {
    restless(workers).unlogged()
}
