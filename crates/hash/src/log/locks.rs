//! The locks of the hot log's files and frames.

use ecotone_sys::primitive::Mutex;

/// The locks for writing, syncing and evicting frames. Each admits one thread at a time.
#[derive(Debug)]
pub(super) struct FlushLocks {
    pub(super) writing: Mutex<()>,
    pub(super) syncing: Mutex<()>,
    pub(super) evicting: Mutex<()>,
}

impl FlushLocks {
    pub(super) fn new() -> FlushLocks {
        FlushLocks { writing: Mutex::new(()), syncing: Mutex::new(()), evicting: Mutex::new(()) }
    }
}
