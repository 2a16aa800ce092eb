//! The files of a store, as the file system sees them.

use std::{
    fs, io,
    num::NonZero,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use rustix::{
    fs::{Advice, SeekFrom, fadvise, seek},
    io::Errno,
};

use crate::error::{Context, Result};

/// Unit of `st_blocks`.
const BLOCK: u64 = 512;
/// Bytes of a read when files are read through.
const PORTION: usize = 4 << 20;

/// Bytes that the files below a directory occupy on the disk.
pub(crate) fn allocated(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    walk(directory, &mut |_, metadata| {
        bytes += metadata.blocks() * BLOCK;
        Ok(())
    })?;
    Ok(bytes)
}

/// Drops the cached pages of all files below a directory. A page that another process cached is not charged to the
/// cgroup of the process that uses it.
pub(crate) fn drop_cached(directory: &Path) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    walk(directory, &mut |path, _| drop_pages(&open_clean(path)?, path))
}

/// Reads all files below a directory once, and drops their pages. A virtual disk reads data that was idle for a while
/// several times slower; the idle time must make no difference between two stores.
pub(crate) fn wake(directory: &Path) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let mut buffer = vec![0; PORTION];
    walk(directory, &mut |path, _| {
        let file = open_clean(path)?;
        read_through(&file, &mut buffer).context("read", path)?;
        drop_pages(&file, path)
    })
}

/// Reads everything except holes. Drops the pages on the way, so that they evict nothing else.
fn read_through(file: &fs::File, buffer: &mut [u8]) -> io::Result<()> {
    let mut offset = 0;
    loop {
        offset = match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            // Only a hole follows.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(offset))?;
        while offset < end {
            let portion = (end - offset).min(PORTION as u64) as usize;
            let read = file.read_at(&mut buffer[..portion], offset)?;
            if read == 0 {
                return Ok(());
            }
            fadvise(file, offset, NonZero::new(read as u64), Advice::DontNeed)?;
            offset += read as u64;
        }
    }
}

/// Only clean pages can be dropped.
fn open_clean(path: &Path) -> Result<fs::File> {
    let file = fs::File::open(path).context("open", path)?;
    file.sync_all().context("sync", path)?;
    Ok(file)
}

fn drop_pages(file: &fs::File, path: &Path) -> Result<()> {
    fadvise(file, 0, None, Advice::DontNeed).context("drop the cached pages of", path)
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
    fn files_are_read_through_from_data_to_data() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; PORTION + 5], 0).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(&[9; 100], 1 << 39).unwrap();
        let mut buffer = vec![0; PORTION];
        read_through(&file, &mut buffer).unwrap();
        assert_eq!(buffer[..100], [9; 100], "the last data came last, and a tebibyte of holes took no time");
    }

    #[test]
    fn files_in_folders_count_and_holes_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("full"), vec![1; 100_000]).unwrap();
        fs::File::create(folder.join("hole")).unwrap().set_len(1 << 30).unwrap();
        drop_cached(directory.path()).unwrap();
        wake(directory.path()).unwrap();
        let bytes = allocated(directory.path()).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }
}
