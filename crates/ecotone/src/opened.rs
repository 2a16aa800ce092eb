//! What all handles of an open database share: the last one to go closes it.
//!
//! It is counted apart from what is behind the handles, which background work holds as well for a moment: so it is the
//! thread of the last handle that closes the database, and when its drop returns others can open it.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use crate::{Error, database::Inner};

/// One for all handles.
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
            // Nothing of what is behind is dropped in this process: it would wait for threads that are not here.
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
