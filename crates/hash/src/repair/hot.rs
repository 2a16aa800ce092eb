//! Salvage of the hot log: reads every page that verifies.

use std::{result, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    limits,
    memory::Component,
    storage::{self, Access, File},
    table::{FileIdentity, FileRole},
};
use ecotone_sys::chunk::Size;

use crate::log::{Address, HeaderKind, PAGE, Page, PageLocation};

/// Receives a key and its value, or no value if the key was deleted. A later call for the same key is newer.
pub type Visit<'v> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<()> + 'v;

/// Reads the pages of one segment.
pub(super) struct Pages {
    name: FileIdentity,
    file: Arc<dyn File>,
    frame: storage::Block,
}

impl Pages {
    /// Opens a segment without checking its header.
    pub(super) fn open(environment: &Environment, name: FileIdentity) -> Result<Pages> {
        let file = environment.storage.open(FileRole::Segment.file(name), Access::Cached)?;
        let frame = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        Ok(Pages { name, file, frame })
    }

    /// Bytes of the file.
    pub(super) fn length(&self) -> Result<u64> {
        self.file.len()
    }

    /// Passes the records of the page at an address, which begins at an offset, to `visit`.
    ///
    /// # Errors
    /// Those of `visit`. The result says what is wrong with the page.
    pub(super) fn each(
        &mut self,
        offset: u64,
        address: Address,
        visit: &mut Visit<'_>,
    ) -> Result<result::Result<(), Error>> {
        match self.read(offset) {
            Ok(()) => self.visit(offset, address, visit),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The same for a page that names its own address, if that is not below `begin`. Returns whether the page verifies.
    pub(super) fn at_least(&mut self, offset: u64, begin: Address, visit: &mut Visit<'_>) -> Result<bool> {
        if self.read(offset).is_err() {
            return Ok(false);
        }
        let said = self.frame.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let address = Address::new(said);
        Ok(address >= begin && address.in_page() == 0 && self.visit(offset, address, visit)?.is_ok())
    }

    fn read(&mut self, offset: u64) -> Result<()> {
        self.file.read(&mut self.frame[..limits::PAGE], offset)
    }

    fn visit(&self, offset: u64, address: Address, visit: &mut Visit<'_>) -> Result<result::Result<(), Error>> {
        let id = FileRole::Segment.file(self.name);
        let place = PageLocation { file: id.identity(), birth: self.name.birth, address };
        let page = match Page::parse(&self.frame[..limits::PAGE], place) {
            Ok(page) => page,
            Err(malformed) => return Ok(Err(malformed.at(id, offset))),
        };
        for record in page.records() {
            let (_, record) = match record {
                Ok(record) => record,
                Err(malformed) => return Ok(Err(malformed.at(id, offset))),
            };
            match record.kind {
                HeaderKind::Invalid => {}
                HeaderKind::Value => visit(record.key, Some(record.value))?,
                HeaderKind::Tombstone => visit(record.key, None)?,
            }
        }
        Ok(Ok(()))
    }

    /// The offset of an address in the file of a segment that begins at `from`.
    pub(super) fn offset(from: Address, address: Address) -> u64 {
        PAGE + (address.get() - from.get())
    }
}
