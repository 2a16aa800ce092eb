//! The fields of the first page of a write-once file, whether the page verifies or not. Callers validate them by
//! checksums that depend on them.

use std::sync::Arc;

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{Access, Block, File, FileId},
};
use ecotone_sys::chunk::Size;

/// A file and its first page.
#[derive(Debug)]
pub struct FirstPage {
    /// The file.
    pub file: Arc<dyn File>,
    /// Bytes of the file.
    pub length: u64,
    page: Block,
}

impl FirstPage {
    /// Reads the first page of a file. Where it cannot be read, or the file is shorter, it is zeros.
    ///
    /// # Errors
    /// If there is no such file, or no memory.
    pub fn read(environment: &Environment, id: FileId) -> Result<FirstPage> {
        let file = environment.storage.open(id, Access::Cached)?;
        let length = file.len()?;
        let mut page = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        page.fill(0);
        if length >= PAGE as u64 {
            match file.read(&mut page[..PAGE], 0) {
                Ok(()) => {}
                Err(Error::Io { .. }) => page.fill(0),
                Err(error) => return Err(error),
            }
        }
        Ok(FirstPage { file, length, page })
    }

    /// The identity of the database that the page names.
    pub fn database(&self) -> u64 {
        self.word(40)
    }

    /// The birth of the file that the page names.
    pub fn birth(&self) -> u64 {
        self.word(56)
    }

    /// Eight bytes of the page as a word.
    pub fn word(&self, at: usize) -> u64 {
        self.page.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}
