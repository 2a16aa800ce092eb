//! What one conversion leaves to the next: the size of a piece, which halves while memory or space is short, and where
//! a compaction that began with a conversion goes on (adaptive.md, "Converting to pages").

use std::sync::atomic::{AtomicU32, Ordering};

use ecotone_substrate::Result;
use ecotone_sys::primitive::Mutex;

use crate::{cache::table_reader::TableReader, manifest::RunId, version::Version};

/// Limits of one piece: bytes of visible tables or of pages, and tables of full size, about.
const MAX_CONVERSION_BYTES: u64 = 32 << 20;
const MAX_CONVERSION_TABLES: u64 = 4;
/// The most halvings of a piece.
const HALVINGS: u32 = 20;

/// State that one conversion leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct ConversionState {
    /// How often pieces are halved, as larger ones found too little memory or space.
    halvings: AtomicU32,
    /// The youngest run of a compaction that began with a conversion, until that compaction is done.
    begun: Mutex<Option<RunId>>,
}

impl ConversionState {
    /// The youngest run that the next compaction may take, if one has begun.
    pub(crate) fn begun(&self) -> Option<RunId> {
        *self.begun.lock()
    }

    /// Bytes of one piece, if tables have `table` bytes.
    pub(super) fn max_bytes(&self, table: u64) -> u64 {
        (MAX_CONVERSION_TABLES * table).min(MAX_CONVERSION_BYTES) >> self.halvings.load(Ordering::Relaxed)
    }

    /// The compaction is done.
    pub(crate) fn end(&self) {
        *self.begun.lock() = None;
    }

    /// A compaction begins with a conversion: later steps of it take no younger run.
    pub(super) fn begin(&self, version: &Version<TableReader>) {
        let youngest = version.runs().map(|(run_id, _)| run_id).next();
        let mut begun = self.begun.lock();
        *begun = begun.or(youngest);
    }

    /// Adapts the size of pieces to the result of the last one.
    pub(crate) fn learn<T>(&self, ended: &Result<T>) {
        let halvings = self.halvings.load(Ordering::Relaxed);
        let next = match ended {
            Ok(_) => halvings.saturating_sub(1),
            Err(error) if error.is_shortage() => (halvings + 1).min(HALVINGS),
            Err(_) => halvings,
        };
        self.halvings.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use ecotone_substrate::Error;

    use super::*;

    #[test]
    fn pieces_are_halved_while_space_or_memory_is_wanting_and_grow_again() {
        let conversion = ConversionState::default();
        let memory = || Err(Error::Memory { what: "frames", budget: 1 });
        let halvings = |ended: Result<()>| {
            conversion.learn(&ended);
            conversion.halvings.load(Ordering::Relaxed)
        };
        assert_eq!(
            [memory(), memory(), Ok(()), Err(Error::Closed { what: "the keyspace" }), Ok(()), Ok(())].map(halvings),
            [1, 2, 1, 1, 0, 0]
        );
        assert!((0..100).all(|_| halvings(memory()) <= HALVINGS));
    }
}
