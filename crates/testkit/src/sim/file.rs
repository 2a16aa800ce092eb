//! One open file of the simulated disk.

use std::{io, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    limits::PAGE,
    storage::{Access, File, FileId},
};
use rand::RngExt;

use super::{
    fault::Fate,
    phase::Io,
    state::{InodeRef, Shared, SimState},
};

/// A handle of a file; it keeps working after the file has lost its name.
#[derive(Debug)]
pub(super) struct SimFile {
    shared: Arc<Shared>,
    inode: InodeRef,
    id: FileId,
    access: Access,
}

impl SimFile {
    pub(super) fn new(shared: Arc<Shared>, inode: InodeRef, id: FileId, access: Access) -> Self {
        SimFile { shared, inode, id, access }
    }

    /// # Panics
    /// If `O_DIRECT` would refuse the transfer: that is a bug of the caller.
    fn check_alignment(&self, buffer: &[u8], offset: u64) {
        if self.access == Access::Direct {
            let (address, len) = (buffer.as_ptr().addr(), buffer.len());
            let unit = self.unit();
            let aligned = address % unit == 0 && len % unit == 0 && offset.is_multiple_of(unit as u64);
            assert!(
                aligned,
                "direct I/O on {} is not aligned: buffer {address:#x}, offset {offset}, length {len}",
                self.id
            );
        }
    }

    fn check_end(&self, end: Option<u64>, offset: u64) -> Result<()> {
        if end.is_none_or(|end| end > self.inode.lock().extent().length) {
            return Err(Error::corruption(self.id, offset, "the file ends early"));
        }
        Ok(())
    }

    fn write_whole(&self, state: &SimState, buffer: &[u8], offset: u64) -> Result<()> {
        let growth = self.inode.lock().extent().growth(offset, offset + buffer.len() as u64);
        state.take_space(growth).map_err(|error| Error::io(Io::Write.verb(), self.id, error))?;
        self.inode.lock().write(buffer, offset);
        Ok(())
    }

    /// The write goes to another page of the file, or nowhere if there is no other page.
    fn write_misplaced(&self, state: &mut SimState, buffer: &[u8], offset: u64) {
        let mut inode = self.inode.lock();
        let (page, length) = (PAGE as u64, inode.extent().length);
        let end = offset + buffer.len() as u64;
        let places = (0..length / page).map(|number| number * page + offset % page);
        let places: Vec<u64> = places.filter(|at| *at != offset && at + (end - offset) <= length).collect();
        if !places.is_empty() {
            inode.write(buffer, places[state.random.random_range(0..places.len())]);
        }
    }
}

impl File for SimFile {
    fn id(&self) -> FileId {
        self.id
    }

    fn len(&self) -> Result<u64> {
        self.shared.state().check_power("measure", self.id)?;
        Ok(self.inode.lock().extent().length)
    }

    fn unit(&self) -> usize {
        self.shared.unit
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.check_alignment(buffer, offset);
        self.shared.perform((self.id, Io::Read), (offset, buffer.len()), |_, _| {
            self.check_end(offset.checked_add(buffer.len() as u64), offset)?;
            self.inode.lock().read(buffer, offset);
            Ok(())
        })
    }

    fn write(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.check_alignment(buffer, offset);
        self.shared.perform((self.id, Io::Write), (offset, buffer.len()), |state, fate| match fate {
            Fate::Normal => self.write_whole(state, buffer, offset),
            Fate::Misplaced => {
                self.write_misplaced(state, buffer, offset);
                Ok(())
            }
            Fate::Fails(_) | Fate::Crash => {
                self.inode.lock().write_torn(buffer, offset, &mut state.random);
                Ok(())
            }
        })
    }

    fn sync(&self) -> Result<()> {
        self.shared.perform((self.id, Io::Sync), (0, 0), |state, fate| {
            let mut inode = self.inode.lock();
            match fate {
                Fate::Fails(_) => inode.lose_unsynced(),
                _ if fate.takes_effect(&mut state.random) => inode.sync(),
                _ => {}
            }
            Ok(())
        })
    }

    fn preallocate(&self, offset: u64, length: u64) -> Result<()> {
        let mut wanted = 0;
        let done = self.shared.perform((self.id, Io::Preallocate), (0, 0), |state, fate| {
            wanted = self.inode.lock().extent().growth(offset, offset + length);
            state.take_space(wanted).map_err(|error| Error::io(Io::Preallocate.verb(), self.id, error))?;
            if fate.takes_effect(&mut state.random) {
                self.inode.lock().preallocate(offset, length);
            }
            Ok(())
        });
        done.map_err(|error| match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Error::NoSpace { file: self.id.to_string(), wanted }
            }
            other => other,
        })
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        let span = usize::try_from(length).expect("a simulated file fits into memory");
        self.shared.perform((self.id, Io::Punch), (offset, span), |state, fate| {
            if fate.takes_effect(&mut state.random) {
                self.inode.lock().punch(offset, offset + length);
            }
            Ok(true)
        })
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.shared.perform((self.id, Io::SetLen), (0, 0), |state, fate| {
            if fate.takes_effect(&mut state.random) {
                self.inode.lock().set_len(length);
            }
            Ok(())
        })
    }

    fn reserved(&self) -> Result<u64> {
        self.shared.state().check_power("measure", self.id)?;
        Ok(self.inode.lock().extent().reserved())
    }

    fn forget(&self, _offset: u64, _length: u64) {}
}
