//! The keys of a cell: synthetic ones, or a file of real ones that may not be here.

use std::path::{Path, PathBuf};

use super::cell::Scale;
use crate::keys::Order;

/// Where key sets lie that come with the repository.
const BUNDLED: &str = "data";

/// Which keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Keys {
    /// Spread evenly over all numbers.
    Synthetic,
    /// Synthetic ones that come in an order.
    Ordered(Order),
    /// A file of numbers.
    File {
        /// How cells call it.
        label: &'static str,
        /// Its name in the directory of key sets.
        name: &'static str,
        /// Keys that it is scaled to at the full scale; it is taken as it is without.
        scaled: Option<u64>,
        /// Whether records arrive in the order of the file, or in none.
        arrival: bool,
    },
}

impl Keys {
    /// How cells call them; synthetic keys go without saying.
    pub(super) fn label(&self) -> Option<&'static str> {
        match self {
            Keys::Synthetic => None,
            Keys::Ordered(order) => Some(order.name()),
            Keys::File { label, .. } => Some(label),
        }
    }

    /// In which order they come, if not shuffled.
    pub(super) fn order(&self) -> Option<Order> {
        match self {
            Keys::Ordered(order) => Some(*order),
            Keys::File { arrival: true, .. } => Some(Order::Arrival),
            Keys::Synthetic | Keys::File { .. } => None,
        }
    }

    /// The file among those below `directory`, or below the bundled ones.
    ///
    /// # Errors
    /// Says which file is in neither place.
    pub(super) fn find(&self, directory: &Path) -> Result<Option<PathBuf>, String> {
        let Keys::File { name, .. } = self else { return Ok(None) };
        let found =
            [directory, Path::new(BUNDLED)].map(|place| place.join(name)).into_iter().find(|file| file.is_file());
        let missing =
            || format!("{name} is neither in {} nor in {BUNDLED}; --data names its directory", directory.display());
        found.map(Some).ok_or_else(missing)
    }

    /// How many keys the file is scaled to at a scale; without a number it is taken as it is.
    pub(super) fn scaled(&self, scale: Scale) -> Option<u64> {
        match self {
            Keys::File { scaled, .. } if scale == Scale::Full => *scaled,
            _ => None,
        }
    }
}
