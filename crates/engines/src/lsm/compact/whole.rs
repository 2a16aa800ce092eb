//! Bringing all that a keyspace has into its last level, where nothing is left that was deleted or replaced (decision
//! 11, "Levels and compaction").

use std::{collections::BTreeSet, iter, sync::Arc};

use ecotone_substrate::{Result, Seq, limits::MAX_LEVELS};
use ecotone_sys::primitive::atomic::{AtomicUsize, Ordering};

use crate::{
    engine::Progress,
    lsm::{
        clearing::Span,
        records::Lsm,
        structure::{Cover, Place},
        version::{Ranged, Split, Version},
    },
};

impl Lsm {
    /// Brings what was applied before into the last level, from above, by jobs of the usual size. What others write
    /// meanwhile may stay above it.
    pub(in crate::lsm) fn compact_all(self: &Arc<Self>, progress: &mut Progress<'_>) -> Result<()> {
        let (health, level_0) = (&self.files.environment().health, self.sizes.level_0);
        let mut whole = Some(self.begin_whole());
        health.unless_panics("a flush", || self.flush(Seq::MAX))?;
        // What pages have as well is replaced there, and nothing of it is left to sink.
        let owned = |(lower, upper): (&[u8], &[u8])| (lower.to_vec(), upper.to_vec());
        // No version is held meanwhile: tables that go by it would stay.
        let covers: Vec<Span> = self.version().covers().iter().map(Cover::bounds).map(owned).collect();
        for (lower, upper) in covers {
            health.unless_panics("an absorption", || self.absorb(Split::Side, &lower, &upper))?;
        }
        let (all, mut done) = (self.version().bytes_to_sink(level_0), 0);
        progress(done, all);
        for depth in iter::once(None).chain((2..=MAX_LEVELS).rev().map(Some)) {
            // Those that come later need not go, so that this ends whatever is written.
            let files: BTreeSet<_> = self.version().files_at(depth).collect();
            let step = || {
                self.relieve_level_0()?;
                self.compact_by(|version| version.piece_of_tables(depth, &files, level_0))
            };
            while health.unless_panics("a compaction", step)? {
                done = all.saturating_sub(self.version().bytes_to_sink(level_0)).max(done);
                progress(done, all);
            }
            // Level 0 is the first.
            whole.take();
        }
        progress(all, all);
        Ok(())
    }

    /// From now on no runs become one: what is to sink would be in another table.
    fn begin_whole(self: &Arc<Self>) -> Whole {
        self.wholes.0.fetch_add(1, Ordering::Relaxed);
        let whole = Whole(self.clone());
        // Who has the turn may not have seen it.
        self.end_turn(self.compacting.lock());
        whole
    }
}

/// Compactions of everything that are in level 0.
#[derive(Debug, Default)]
pub(in crate::lsm) struct Wholes(AtomicUsize);

impl Wholes {
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// One of them, until level 0 is empty.
struct Whole(Arc<Lsm>);

impl Drop for Whole {
    fn drop(&mut self) {
        self.0.wholes.0.fetch_sub(1, Ordering::Relaxed);
        // Nobody else would before the next flush.
        self.0.call_compaction();
    }
}

impl<T: Ranged> Version<T> {
    /// Bytes of tables above the last level, each as often as it has to go down. Level 0 may have so many bytes.
    fn bytes_to_sink(&self, level_0: u64) -> u64 {
        let steps = |place| match place {
            Place::Run(_) => self.top(level_0),
            Place::Level(depth) => depth - 1,
        };
        self.runs().map(|(place, _)| u64::from(steps(place)) * self.bytes_at(place)).sum()
    }
}
