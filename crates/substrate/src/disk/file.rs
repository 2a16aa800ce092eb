//! One file of a database directory.

use std::{io, path::PathBuf, sync::Arc};

use ecotone_sys::file as system;

use super::{Directory, Driver, descriptors::Lent};
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
    unit: usize,
    directory: Arc<Directory>,
    descriptor: Descriptor,
}

#[derive(Debug)]
enum Descriptor {
    Kept(Arc<system::File>),
    /// A file of a keyspace, of which there may be many.
    Lent(Arc<Lent>),
}

impl DiskFile {
    pub(super) fn open(directory: &Arc<Directory>, id: FileId, access: Access, how: system::Open) -> Result<DiskFile> {
        let is_direct = access == Access::Direct;
        let action = if how == system::Open::New { "create" } else { "open" };
        let open = || directory.handle.open_file(&id.to_string(), how, is_direct);
        let file = directory.descriptors.open_patiently(open);
        // A new file needs space for its name.
        let file = file.map_err(|error| {
            no_space(id, PAGE as u64, &error)
                .unwrap_or_else(|| Error::io(action, directory.path_of(id).display(), error))
        })?;
        let unit = file.unit();
        let descriptor = match id.keyspace() {
            Some(_) => Descriptor::Lent(directory.descriptors.add(id, &directory.handle, file, is_direct)),
            None => Descriptor::Kept(Arc::new(file)),
        };
        Ok(DiskFile { id, access, unit, directory: directory.clone(), descriptor })
    }

    /// Calls `act` with the file, which is opened if needed. `writes` says that `act` changes the file.
    fn with<R>(&self, what: &'static str, writes: bool, act: impl FnOnce(&system::File) -> io::Result<R>) -> Result<R> {
        let _pass = if writes { Some(self.directory.gate.enter()?) } else { None };
        let done = match &self.descriptor {
            Descriptor::Kept(file) => act(file),
            Descriptor::Lent(lent) => act(&*self.open_again(lent, writes)?),
        };
        // Bytes read after the directory was closed may be another process's.
        self.directory.gate.check()?;
        done.map_err(|error| self.failed(what, error))
    }

    fn open_again(&self, lent: &Arc<Lent>, writes: bool) -> Result<Arc<system::File>> {
        lent.get(writes).map_err(|error| self.failed("open", error))
    }

    /// Checks alignment also if the file system fell back to the page cache, which would not need it, so that a mistake
    /// shows everywhere.
    fn check_aligned(&self, buffer: &[u8], offset: u64) {
        if self.access == Access::Direct {
            let unit = self.unit;
            let aligned = buffer.as_ptr().addr().is_multiple_of(unit) && buffer.len().is_multiple_of(unit);
            assert!(aligned && offset.is_multiple_of(unit as u64), "direct I/O on {} that is not aligned", self.id);
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path_of(self.id)
    }

    fn write_uncounted(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.with("write", true, |file| file.write_at(buffer, offset))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> Error {
        Error::io(action, self.path().display(), error)
    }
}

/// The error of a full disk. No promise was made yet, so that the call can be tried again.
fn no_space(id: FileId, wanted: u64, error: &io::Error) -> Option<Error> {
    let is_full =
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge);
    is_full.then(|| Error::NoSpace { file: id.to_string(), wanted })
}

impl File for DiskFile {
    fn id(&self) -> FileId {
        self.id
    }

    fn len(&self) -> Result<u64> {
        self.with("read the length of", false, system::File::len)
    }

    fn unit(&self) -> usize {
        self.unit
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.check_aligned(buffer, offset);
        self.directory.tally.request(self.id.kind(), Op::Read, buffer.len());
        let count = self.with("read", false, |file| match self.directory.driver {
            Driver::Uring => self.directory.readers.read(file, buffer, offset),
            Driver::SleepingUring | Driver::Blocking => file.read_at(buffer, offset),
        })?;
        if count < buffer.len() { Err(Error::corruption(self.id, offset, "the file ends early")) } else { Ok(()) }
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
        let _pass = self.directory.gate.enter()?;
        self.directory.tally.sync(self.id.kind());
        let synced = match &self.descriptor {
            Descriptor::Kept(file) => file.sync(),
            Descriptor::Lent(lent) => lent.sync(),
        };
        synced.map_err(|error| self.failed("sync", error))
    }

    fn preallocate(&self, offset: u64, length: u64) -> Result<()> {
        let preallocate = |file: &system::File| Ok(file.preallocate(offset, length));
        let done = self.with("preallocate", true, preallocate)?;
        done.map_err(|error| no_space(self.id, length, &error).unwrap_or_else(|| self.failed("preallocate", error)))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.with("punch a hole into", true, |file| file.punch(offset, length))
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.with("set the length of", true, |file| file.set_len(length))
    }

    fn reserved(&self) -> Result<u64> {
        self.with("read the space of", false, system::File::reserved)
    }

    fn forget(&self, offset: u64, length: u64) {
        if length > 0
            && let Err(error) = self.with("forget the pages of", false, |file| file.advise_dont_need(offset, length))
        {
            tracing::debug!(%error, file = %self.id, "the kernel keeps its cached pages");
        }
    }

    fn system(&self, op: Op) -> Option<Result<Arc<system::File>>> {
        Some(match &self.descriptor {
            Descriptor::Kept(file) => Ok(file.clone()),
            Descriptor::Lent(lent) => self.open_again(lent, op == Op::Write),
        })
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_what_else_is_refused() {
        let id = FileId::Log(3);
        let told = |kind: io::ErrorKind| no_space(id, 4096, &kind.into());
        assert!(
            matches!(told(io::ErrorKind::StorageFull), Some(Error::NoSpace { file, wanted: 4096 }) if file == "log.3")
        );
        assert!(told(io::ErrorKind::QuotaExceeded).is_some());
        assert!(told(io::ErrorKind::PermissionDenied).is_none());
    }
}
