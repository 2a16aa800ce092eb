//! One file of a database directory.

use std::{io, path::PathBuf, sync::Arc};

use ecotone_sys::file as system;

use super::{Directory, Driver};
use crate::{
    Error, Result,
    limits::PAGE,
    storage::{Access, File, FileId, Op},
};

/// An open file. Keeps the directory locked.
#[derive(Debug)]
pub(super) struct DiskFile {
    id: FileId,
    access: Access,
    directory: Arc<Directory>,
    system: Arc<system::File>,
}

impl DiskFile {
    pub(super) fn open(directory: &Arc<Directory>, id: FileId, access: Access, how: system::Open) -> Result<DiskFile> {
        let path = directory.path_of(id);
        let action = if how == system::Open::New { "create" } else { "open" };
        let file = system::File::open(&path, how, access == Access::Direct);
        let system = Arc::new(file.map_err(|error| Error::io(action, path.display(), error))?);
        Ok(DiskFile { id, access, directory: directory.clone(), system })
    }

    /// Checks alignment also where the file system fell back to the page cache and would not care, so that a mistake shows everywhere.
    fn check_aligned(&self, buffer: &[u8], offset: u64) {
        if self.access == Access::Direct {
            let unit = self.system.unit();
            let aligned = buffer.as_ptr().addr().is_multiple_of(unit) && buffer.len().is_multiple_of(unit);
            assert!(aligned && offset.is_multiple_of(unit as u64), "direct I/O on {} that is not aligned", self.id);
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path_of(self.id)
    }

    fn write_uncounted(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.system.write_at(buffer, offset).map_err(|error| self.failed("write", error))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> Error {
        Error::io(action, self.path().display(), error)
    }
}

impl File for DiskFile {
    fn id(&self) -> FileId {
        self.id
    }

    fn len(&self) -> Result<u64> {
        self.system.len().map_err(|error| self.failed("read the length of", error))
    }

    fn unit(&self) -> usize {
        self.system.unit()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.check_aligned(buffer, offset);
        self.directory.tally.request(self.id.kind(), Op::Read, buffer.len());
        let read = match self.directory.driver {
            Driver::Uring => self.directory.readers.read(&self.system, buffer, offset),
            Driver::SleepingUring | Driver::Blocking => self.system.read_at(buffer, offset),
        };
        match read {
            Ok(count) if count < buffer.len() => Err(Error::corruption(self.id, offset, "the file ends early")),
            result => result.map(|_| ()).map_err(|error| self.failed("read", error)),
        }
    }

    fn write(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.check_aligned(buffer, offset);
        self.directory.tally.request(self.id.kind(), Op::Write, buffer.len());
        self.write_uncounted(buffer, offset)
    }

    fn blank(&self, page: u64) -> Result<()> {
        self.write_uncounted(&[0; PAGE], page)
    }

    fn sync(&self) -> Result<()> {
        self.directory.tally.sync(self.id.kind());
        self.system.sync().map_err(|error| self.failed("sync", error))
    }

    fn preallocate(&self, offset: u64, length: u64) -> Result<()> {
        self.system.preallocate(offset, length).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::NoSpace { file: self.id.to_string(), wanted: length }
            }
            _ => self.failed("preallocate", error),
        })
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.system.punch(offset, length).map_err(|error| self.failed("punch a hole into", error))
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.system.set_len(length).map_err(|error| self.failed("set the length of", error))
    }

    fn reserved(&self) -> Result<u64> {
        self.system.reserved().map_err(|error| self.failed("read the space of", error))
    }

    fn forget(&self, offset: u64, length: u64) {
        if length > 0
            && let Err(error) = self.system.advise_dont_need(offset, length)
        {
            tracing::debug!(%error, file = %self.id, "the kernel keeps its cached pages");
        }
    }

    fn system(&self) -> Option<&Arc<system::File>> {
        Some(&self.system)
    }
}
