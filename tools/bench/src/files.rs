//! The files of a store, seen from outside.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use rustix::fs::{Advice, fadvise};

use crate::error::{Context, Result};

/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Bytes that the files below a directory take on the disk.
pub(crate) fn allocated(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    walk(directory, &mut |_, metadata| {
        bytes += metadata.blocks() * BLOCK;
        Ok(())
    })?;
    Ok(bytes)
}

/// Drops the cached pages of all files below a directory: pages that were cached by another process are not charged to the cgroup of the one that
/// uses them.
pub(crate) fn drop_cached(directory: &Path) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    walk(directory, &mut |path, _| {
        let file = fs::File::open(path).context("open", path)?;
        // Only clean pages can be dropped.
        file.sync_all().context("sync", path)?;
        fadvise(&file, 0, None, Advice::DontNeed).context("drop the cached pages of", path)
    })
}

fn walk(directory: &Path, visit: &mut impl FnMut(&Path, &fs::Metadata) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(directory).context("read", directory)? {
        let entry = entry.context("read", directory)?;
        let (path, metadata) = (entry.path(), entry.metadata().context("read", directory)?);
        if metadata.is_dir() {
            walk(&path, visit)?;
        } else if metadata.is_file() {
            visit(&path, &metadata)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_count_and_holes_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("full"), vec![1; 100_000]).unwrap();
        fs::File::create(folder.join("hole")).unwrap().set_len(1 << 30).unwrap();
        drop_cached(directory.path()).unwrap();
        let bytes = allocated(directory.path()).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }
}
