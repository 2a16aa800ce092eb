//! The errors that end a run early.

use std::{fmt, path::Path};

/// Any failure, with a sentence for the user. Only [`WrongAnswer`] is distinguished, because it sets the row's status.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of anything that can end a run.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A store gave a wrong answer.
#[derive(Debug)]
pub(crate) struct WrongAnswer(pub(crate) String);

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongAnswer {}

/// Adds the attempted action and the file to an error.
pub(crate) trait Context<T> {
    /// `action` is a verb, such as `read`.
    fn context(self, action: &str, path: &Path) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, action: &str, path: &Path) -> Result<T> {
        self.map_err(|error| format!("cannot {action} {}: {error}", path.display()).into())
    }
}
