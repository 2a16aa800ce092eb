//! The shared part of all handles of an open database. Dropping the last handle closes the database.
//!
//! Handles are counted apart from `Inner`, since background work holds that for a moment as well. So the thread that
//! drops the last handle closes the database, and when the drop returns the database can be opened again.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use crate::{Error, database::Inner};

/// Shared by all handles.
pub(crate) struct Opened {
    inner: Arc<Inner>,
}

impl Opened {
    pub(crate) fn new(inner: Arc<Inner>) -> Opened {
        Opened { inner }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.inner.life.is_over() {
            // A forked child process drops nothing: it would wait for threads that it does not have.
            mem::forget(self.inner.clone());
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| self.inner.shut_down())) {
            Ok(Ok(()) | Err(Error::Forked)) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "closing the database failed; its log still holds everything acknowledged");
            }
            Err(_) if std::thread::panicking() => {}
            Err(panic) => resume_unwind(panic),
        }
    }
}
