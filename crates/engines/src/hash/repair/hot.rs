//! What can be read of the hot log: every page that verifies.

use std::{result, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    limits,
    memory::Component,
    storage::{self, Access, File},
    table::{Name, Role},
};
use ecotone_sys::chunk::Size;

use super::Visit;
use crate::hash::log::{Address, Kind, PAGE, Page, Place};

/// Reads the pages of one segment.
pub(super) struct Pages {
    name: Name,
    file: Arc<dyn File>,
    frame: storage::Block,
}

impl Pages {
    /// Those of a segment, of which the header is not looked at.
    pub(super) fn open(environment: &Environment, name: Name) -> Result<Pages> {
        let file = environment.storage.open(Role::Segment.file(name), Access::Cached)?;
        let frame = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        Ok(Pages { name, file, frame })
    }

    /// Bytes of the file.
    pub(super) fn length(&self) -> Result<u64> {
        self.file.len()
    }

    /// Gives the records of the page at an address, which begins at an offset.
    ///
    /// # Errors
    /// Those of `visit`. What is wrong with the page is in the result.
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

    /// The same of a page that says where it is, if that is not below `begin`. Whether it verifies.
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
        let id = Role::Segment.file(self.name);
        let place = Place { file: id.identity(), birth: self.name.birth, address };
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
                Kind::Invalid => {}
                Kind::Value => visit(record.key, Some(record.value))?,
                Kind::Tombstone => visit(record.key, None)?,
            }
        }
        Ok(Ok(()))
    }

    /// Where an address is in the file of a segment that begins at `from`.
    pub(super) fn offset(from: Address, address: Address) -> u64 {
        PAGE + (address.get() - from.get())
    }
}
