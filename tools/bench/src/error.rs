//! What ends a run early.

use std::{fmt::Display, path::Path};

/// Any failure, with a sentence for the user. Nothing here is handled by kind.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of anything that can end a run.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Says what was tried on which file.
pub(crate) trait Context<T> {
    /// `action` is a verb, such as `read`.
    fn context(self, action: &str, path: &Path) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, action: &str, path: &Path) -> Result<T> {
        self.map_err(|error| format!("cannot {action} {}: {error}", path.display()).into())
    }
}
