//! The purpose of an I/O, derived from the kind of its file, so that the code under test needs no hooks.

use ecotone_substrate::storage::FileId;

/// The part of the database that an I/O belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Segments of the write-ahead log.
    Log,
    /// The double-write area.
    DoubleWrite,
    /// Pages of keyspaces: write-out and structural writes.
    Pages,
    /// Sorted files.
    Table,
    /// Segments of hot logs.
    Hot,
    /// Manifests.
    Manifest,
    /// Scratch files.
    Scratch,
    /// Names: creations, removals and directory syncs.
    Directory,
}

/// The kind of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Io {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes a file durable.
    Sync,
    /// Reserves space.
    Preallocate,
    /// Gives space back.
    Punch,
    /// Cuts or extends a file.
    SetLen,
    /// Makes a file.
    Create,
    /// Removes a name.
    Remove,
    /// Makes names durable.
    SyncDir,
}

impl Io {
    /// The verb of an error message.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Io::Read => "read",
            Io::Write => "write",
            Io::Sync => "sync",
            Io::Preallocate => "preallocate",
            Io::Punch => "punch a hole into",
            Io::SetLen => "set the length of",
            Io::Create => "create",
            Io::Remove => "remove",
            Io::SyncDir => "sync",
        }
    }
}

/// The label of an I/O in the trace of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The part of the database that it belongs to.
    pub phase: Phase,
    /// The kind of I/O.
    pub io: Io,
}

impl Label {
    /// The label of a sync of the directory, which belongs to no file.
    pub const SYNC_DIR: Label = Label { phase: Phase::Directory, io: Io::SyncDir };

    /// The label of an operation on a file.
    pub fn of(file: FileId, io: Io) -> Label {
        let phase = match (io, file) {
            (Io::Create | Io::Remove | Io::SyncDir, _) => Phase::Directory,
            (_, FileId::Manifest(_)) => Phase::Manifest,
            (_, FileId::Log(_)) => Phase::Log,
            (_, FileId::Double(_)) => Phase::DoubleWrite,
            (_, FileId::Pages(_)) => Phase::Pages,
            (_, FileId::Table { .. }) => Phase::Table,
            (_, FileId::Segment { .. }) => Phase::Hot,
            (_, FileId::Scratch(_)) => Phase::Scratch,
        };
        Label { phase, io }
    }
}
