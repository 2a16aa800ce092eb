//! The first 64 bytes of a file that is written once. They are the same for all kinds (`docs/format/hash.md`, "Files").

use std::{result, sync::Arc};

use ecotone_sys::{checksum::crc32c, chunk::Size};

use super::{FileIdentity, FileRole};
use crate::{
    Error, Result,
    codec::{Malformed, Reader, Writer, is_zero},
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{Access, File},
};

/// A decoded value, or the reason why the bytes are malformed.
type Parsed<T> = result::Result<T, Malformed>;

/// The header of one kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// The kind's role in the storage.
    pub role: FileRole,
    /// The first bytes behind the checksum.
    pub magic: &'static [u8; 8],
    /// The latest version that is known.
    pub version: u32,
}

impl Header {
    /// Begins a header. The kind's own fields follow at byte 64.
    pub fn begin(&self, name: FileIdentity) -> Writer {
        let mut w = Writer::new();
        w.u32(0).bytes(self.magic).u32(self.version);
        // Feature bits: compatible, compatible for readers, incompatible. None is defined yet.
        w.u64(0).u64(0).u64(0);
        w.u64(name.database).u32(name.keyspace).u32(name.number).u64(name.birth);
        w
    }

    /// Fills a page with a whole header.
    ///
    /// # Panics
    /// If the header is longer than the page.
    pub fn seal(&self, name: FileIdentity, header: &Writer, page: &mut [u8]) {
        page.fill(0);
        page[..header.len()].copy_from_slice(header.as_slice());
        let sum = self.checksum(name, page);
        page[..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Opens a file and reads its first page, which must be this very file's. `fields` decodes the kind's own fields,
    /// from byte 64 on; the rest of the page must be zero.
    ///
    /// # Errors
    /// If the page is damaged, belongs to another file, or was written by a later version; or if the file cannot be
    /// read.
    pub fn open<T>(
        &self,
        environment: &Environment,
        name: FileIdentity,
        fields: impl FnOnce(&mut Reader<'_>) -> Parsed<T>,
    ) -> Result<(Arc<dyn File>, T)> {
        let file = environment.storage.open(self.role.file(name), Access::Direct)?;
        let mut page = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        file.read(&mut page, 0)?;
        let fields = self.parse(name, &page, fields).map_err(|e| e.at(file.id(), 0))?;
        Ok((file, fields))
    }

    /// Like [`open`](Self::open), for a file whose bytes are all written once: it must end where its header says.
    ///
    /// # Errors
    /// As for [`open`](Self::open); or if the file ends elsewhere.
    pub fn open_whole<T>(
        &self,
        environment: &Environment,
        name: FileIdentity,
        fields: impl FnOnce(&mut Reader<'_>) -> Parsed<T>,
        end: impl FnOnce(&T) -> u64,
    ) -> Result<(Arc<dyn File>, T)> {
        let (file, fields) = self.open(environment, name, fields)?;
        let length = file.len()?;
        if end(&fields) != length {
            return Err(Error::corruption(file.id(), length, "the file has another length than its header says"));
        }
        Ok((file, fields))
    }

    fn parse<T>(
        &self,
        name: FileIdentity,
        page: &[u8],
        fields: impl FnOnce(&mut Reader<'_>) -> Parsed<T>,
    ) -> Parsed<T> {
        let mut r = Reader::new(page);
        self.identify(name, page, &mut r)?;
        let parsed = fields(&mut r)?;
        let rest = r.clone().bytes(r.remaining())?;
        if !is_zero(rest) {
            return r.fail("reserved bytes are not zero");
        }
        Ok(parsed)
    }

    /// Decodes the first 64 bytes, which must be this very file's.
    fn identify(&self, name: FileIdentity, page: &[u8], r: &mut Reader<'_>) -> Parsed<()> {
        if r.u32()? != self.checksum(name, page) {
            return Err(Malformed::new(0, "the checksum of the file header does not match"));
        }
        if r.array()? != *self.magic {
            return r.fail("the file does not begin as one of its kind");
        }
        let version = r.u32()?;
        if version == 0 {
            return r.fail("there is no format version 0");
        }
        let (_compatible, read_only, incompatible) = (r.u64()?, r.u64()?, r.u64()?);
        let newer = |found, known| {
            Err(Malformed { newer: Some((found, known)), ..Malformed::new(0, "a later version wrote this") })
        };
        if version > self.version {
            return newer(version.into(), self.version.into());
        }
        if read_only | incompatible != 0 {
            return newer(read_only | incompatible, 0);
        }
        let found = FileIdentity { database: r.u64()?, keyspace: r.u32()?, number: r.u32()?, birth: r.u64()? };
        if found == name { Ok(()) } else { r.fail("the file is another one than was named") }
    }

    fn checksum(&self, name: FileIdentity, page: &[u8]) -> u32 {
        crc32c(crc32c(0, &self.role.file(name).identity().to_le_bytes()), page.get(4..PAGE).unwrap_or_default())
    }
}
