//! Shared parts of the engines' salvage code: its source and its report (decision 7).

mod first_page;
mod report;

use std::sync::Arc;

use ecotone_substrate::{double_write::SavedPages, memory::Memory, storage::Storage};

pub use self::first_page::FirstPage;
pub use self::report::{KeyRange, Problems, Ranges, SalvageReport, key_successor, separate_damage};

/// The source that a keyspace is salvaged from.
#[derive(Debug, Clone)]
pub struct SalvageSource {
    /// The directory. Nothing is written to it.
    pub storage: Arc<dyn Storage>,
    /// Another directory, for scratch files where memory is short.
    pub scratch: Arc<dyn Storage>,
    /// The memory budget.
    pub memory: Arc<Memory>,
    /// The double-write area of the directory, if it can be read.
    pub saved: Option<Arc<SavedPages>>,
}
