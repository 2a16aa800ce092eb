//! The keys of a cell: synthetic ones, or a file of real ones that may be missing.

use std::path::{Path, PathBuf};

use super::scale::Scale;
use crate::measure::keys::Order;

/// Directory of the key sets in the repository.
const BUNDLED: &str = "data";

/// The kind of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Keys {
    /// Spread evenly over all numbers.
    Synthetic,
    /// Synthetic ones in a certain order.
    Ordered(Order),
    /// A file of numbers.
    File {
        /// The label in the names of cells.
        label: &'static str,
        /// Its name in the directory of key sets.
        name: &'static str,
        /// Number of keys that it is scaled to at the full scale; `None` for no scaling.
        scaled: Option<u64>,
        /// Whether records arrive in the order of the file, or shuffled.
        arrival: bool,
    },
}

impl Keys {
    /// The label in the names of cells; synthetic keys have none.
    pub(super) fn label(&self) -> Option<&'static str> {
        match self {
            Keys::Synthetic => None,
            Keys::Ordered(order) => Some(order.name()),
            Keys::File { label, .. } => Some(label),
        }
    }

    /// The order of the keys, if not shuffled.
    pub(super) fn order(&self) -> Option<Order> {
        match self {
            Keys::Ordered(order) => Some(*order),
            Keys::File { arrival: true, .. } => Some(Order::Arrival),
            Keys::Synthetic | Keys::File { .. } => None,
        }
    }

    /// Finds the file below `directory`, or among the bundled ones.
    ///
    /// # Errors
    /// Names the file that is in neither place.
    pub(super) fn find(&self, directory: &Path) -> Result<Option<PathBuf>, String> {
        let Keys::File { name, .. } = self else { return Ok(None) };
        let found =
            [directory, Path::new(BUNDLED)].map(|place| place.join(name)).into_iter().find(|file| file.is_file());
        let missing =
            || format!("{name} is neither in {} nor in {BUNDLED}; --data names its directory", directory.display());
        found.map(Some).ok_or_else(missing)
    }

    /// The number of keys that the file is scaled to at a scale; `None` for no scaling.
    pub(super) fn scaled(&self, scale: Scale) -> Option<u64> {
        match self {
            Keys::File { scaled, .. } if scale == Scale::Full => *scaled,
            _ => None,
        }
    }
}
