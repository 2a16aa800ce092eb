//! Which file something belongs to, and where in it.

use ecotone_sys::checksum::crc32c;

use crate::storage::FileId;

/// Which file of which database this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// Identity of the database.
    pub database: u64,
    /// The keyspace.
    pub keyspace: u32,
    /// The file's number within it, which may have been another file's before.
    pub number: u32,
    /// The file's birth, which no other file of the keyspace has or had.
    pub birth: u64,
}

impl Name {
    /// The file, if it is a table.
    pub fn file(self) -> FileId {
        Role::Table.file(self)
    }

    /// A block of the file.
    pub fn place(self, block: u32) -> Place {
        Place { file: self.file().identity(), birth: self.birth, block }
    }
}

/// What a file that is written once is to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Named when it is full.
    Table,
    /// Named when it is empty, and filled from front to back.
    Segment,
}

impl Role {
    /// The file of this name.
    pub fn file(self, Name { keyspace, number, .. }: Name) -> FileId {
        match self {
            Role::Table => FileId::Table { keyspace, number },
            Role::Segment => FileId::Segment { keyspace, number },
        }
    }
}

/// Where a block belongs. It is part of the checksum, so that a block found elsewhere does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// [`FileId::identity`] of the file.
    pub file: u64,
    /// The file's birth.
    pub birth: u64,
    /// Number of the block in the file.
    pub block: u32,
}

impl Place {
    /// The checksum that belongs into the first four bytes of a block.
    pub fn checksum(self, bytes: &[u8]) -> u32 {
        let seed = crc32c(crc32c(0, &self.file.to_le_bytes()), &self.birth.to_le_bytes());
        crc32c(crc32c(seed, &self.block.to_le_bytes()), bytes.get(4..).unwrap_or_default())
    }
}
