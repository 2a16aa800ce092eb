//! The shared part of all handles of an open database. Dropping the last handle closes the database.
//!
//! Handles are counted apart from `DatabaseState`, which background work holds for a moment as well. So the thread that
//! drops the last handle closes the database, and when the drop returns the database can be opened again.

use std::{
    fmt, mem,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use super::state::DatabaseState;
use crate::Error;

/// A reference of a handle to its open database.
#[derive(Clone)]
pub(crate) struct OpenDatabase {
    // First, since fields are dropped in order, and the last `Opened` closes the database.
    _opened: Arc<Opened>,
    state: Arc<DatabaseState>,
}

/// Shared by all handles.
struct Opened {
    state: Arc<DatabaseState>,
}

impl OpenDatabase {
    /// The first reference.
    pub(crate) fn new(state: Arc<DatabaseState>) -> OpenDatabase {
        OpenDatabase { _opened: Arc::new(Opened { state: state.clone() }), state }
    }
}

impl Deref for OpenDatabase {
    type Target = DatabaseState;

    fn deref(&self) -> &DatabaseState {
        &self.state
    }
}

impl fmt::Debug for OpenDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenDatabase").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.state.life.is_over() {
            // A forked child process drops nothing: it would wait for threads that it does not have.
            mem::forget(self.state.clone());
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| self.state.shut_down())) {
            Ok(Ok(()) | Err(Error::Forked)) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "closing the database failed; its log still holds everything acknowledged");
            }
            Err(_) if std::thread::panicking() => {}
            Err(panic) => resume_unwind(panic),
        }
    }
}
