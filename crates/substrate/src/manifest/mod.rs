//! The manifest: a snapshot of everything that is not a page, a table or a log record. It is stored in two copies, of
//! which either suffices (`docs/format/manifest.md`).

mod format;
mod store;

use crate::{Error, Result, Seq, storage::FileId};

/// Known features of a file that older versions may ignore.
pub const COMPATIBLE: u64 = 0;
/// Features that older versions may ignore while they only read.
pub const READ_COMPATIBLE: u64 = 0;
/// Features without which a file cannot be understood.
pub const INCOMPATIBLE: u64 = 0;

/// The state of a database at one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Feature bits that versions may ignore, kept as they were read.
    pub compatible: u64,
    /// Feature bits that versions may ignore if they do not write.
    pub read_compatible: u64,
    /// Feature bits that versions must know.
    pub incompatible: u64,
    /// Random number that tells databases apart.
    pub database: u64,
    /// Rises with every store. The first is 1.
    pub generation: u64,
    /// An incarnation of the log that was used.
    pub incarnation: u64,
    /// The replay position.
    pub replay: Seq,
    /// A position below which the log was synced.
    pub synced: Seq,
    /// The number of the log segment in which replay begins; none in version 1.
    pub segment: Option<u32>,
    /// Whether a clean shutdown stored it: everything was durable, and the session wrote nothing after it.
    pub clean: bool,
    /// The id that the next keyspace gets.
    pub next_keyspace: u32,
    /// The keyspaces, by ascending id.
    pub keyspaces: Vec<KeyspaceRecord>,
}

/// A keyspace as the manifest holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceRecord {
    /// Its number, never reused.
    pub id: u32,
    /// Its name, 1..=[`MAX_NAME`](crate::limits::MAX_NAME) bytes, unique.
    pub name: String,
    /// The name of its engine.
    pub engine: String,
    /// Whether its operations are in the log.
    pub logged: bool,
    /// Whether nothing was written to it before the structure position: it has no files.
    pub unwritten: bool,
    /// Every effect of its operations below this is in its files.
    pub watermark: Seq,
    /// Structural records at or above this are not in `blob`.
    pub structure_position: Seq,
    /// The engine's checkpoint, or the settings of an unwritten keyspace.
    pub blob: Vec<u8>,
}

impl Manifest {
    /// The first manifest of a database without keyspaces.
    pub fn new(database: u64) -> Self {
        Manifest {
            compatible: COMPATIBLE,
            read_compatible: READ_COMPATIBLE,
            incompatible: INCOMPATIBLE,
            database,
            generation: 1,
            incarnation: 0,
            replay: 0,
            synced: 0,
            segment: None,
            clean: false,
            next_keyspace: 1,
            keyspaces: Vec::new(),
        }
    }

    /// The manifest to store next, before its changes.
    pub fn next(&self) -> Self {
        Manifest { generation: self.generation + 1, clean: false, ..self.clone() }
    }

    /// Fails with `NewerFormat` if this version could read the database and must not write it.
    pub fn check_writable(&self) -> Result<()> {
        check_features(self.read_compatible, READ_COMPATIBLE, Self::FILES[0])
    }
}

fn check_features(found: u64, known: u64, file: FileId) -> Result<()> {
    match found & !known {
        0 => Ok(()),
        _ => Err(Error::NewerFormat { file: file.to_string(), found, known }),
    }
}
