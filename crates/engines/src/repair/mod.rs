//! What the repairs of all engines have in common: where they read, and what they tell (decision 7).

mod beginning;
mod findings;

use std::sync::Arc;

use ecotone_substrate::{double_write::SavedPages, memory::Memory, storage::Storage};

pub(crate) use self::beginning::Beginning;
pub use self::findings::{Findings, KeyRange, Problems, Ranges, behind, survive};

/// Where a keyspace is read from, and what with.
#[derive(Debug, Clone)]
pub struct Source {
    /// The directory. Nothing is written to it.
    pub storage: Arc<dyn Storage>,
    /// Another directory, for scratch files where memory is short.
    pub scratch: Arc<dyn Storage>,
    /// The budget.
    pub memory: Arc<Memory>,
    /// The double-write area of the directory, if it can be read.
    pub saved: Option<Arc<SavedPages>>,
}
