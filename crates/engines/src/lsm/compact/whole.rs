//! Bringing all that a keyspace has into its last level, where nothing is left that was deleted or replaced (decision 11, "Levels and compaction").

use std::{collections::BTreeSet, iter, sync::Arc};

use ecotone_substrate::{Result, Seq, limits::MAX_LEVELS};

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
    /// Brings what was applied before into the last level, from above, by jobs of the usual size. What others write meanwhile may stay above it.
    pub(in crate::lsm) fn compact_all(self: &Arc<Self>, progress: &mut Progress<'_>) -> Result<()> {
        let (health, level_0) = (&self.files.environment().health, self.sizes.level_0);
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
        }
        progress(all, all);
        Ok(())
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
