//! The identity of a file, and the address of a block in it.

use ecotone_sys::checksum::crc32c;

use crate::storage::FileId;

/// Identity of a file and its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Identity of the database.
    pub database: u64,
    /// The keyspace.
    pub keyspace: u32,
    /// The file's number within the keyspace. It may be reused.
    pub number: u32,
    /// The file's birth, which is unique in the keyspace.
    pub birth: u64,
}

impl FileIdentity {
    /// The file's id, if it is a table.
    pub fn file(self) -> FileId {
        FileRole::Table.file(self)
    }

    /// The address of a block of the file.
    pub fn place(self, block: u32) -> BlockAddress {
        BlockAddress { file: self.file().identity(), birth: self.birth, block }
    }
}

/// The role of a file that is written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// Named when it is complete.
    Table,
    /// Named when it is empty, and filled from front to back.
    Segment,
}

impl FileRole {
    /// The id of the file with this identity.
    pub fn file(self, FileIdentity { keyspace, number, .. }: FileIdentity) -> FileId {
        match self {
            FileRole::Table => FileId::Table { keyspace, number },
            FileRole::Segment => FileId::Segment { keyspace, number },
        }
    }
}

/// The address of a block. The checksum covers it, so that a block found elsewhere does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockAddress {
    /// [`FileId::identity`] of the file.
    pub file: u64,
    /// The file's birth.
    pub birth: u64,
    /// Number of the block in the file.
    pub block: u32,
}

impl BlockAddress {
    /// The checksum for the first four bytes of a block.
    pub fn checksum(self, bytes: &[u8]) -> u32 {
        let seed = crc32c(crc32c(0, &self.file.to_le_bytes()), &self.birth.to_le_bytes());
        crc32c(crc32c(seed, &self.block.to_le_bytes()), bytes.get(4..).unwrap_or_default())
    }
}
