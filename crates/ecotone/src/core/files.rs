//! Removal of files.

use ecotone_substrate::storage::{FileId, Storage};

use crate::Result;

/// Removes the `unwanted` files, durably.
pub(crate) fn remove(storage: &dyn Storage, unwanted: impl Fn(FileId) -> bool) -> Result<()> {
    let files: Vec<FileId> = storage.list()?.into_iter().filter(|file| unwanted(*file)).collect();
    files.iter().try_for_each(|file| storage.remove_if_there(*file))?;
    if files.is_empty() { Ok(()) } else { storage.sync_dir() }
}
