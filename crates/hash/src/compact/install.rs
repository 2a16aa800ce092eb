//! The interface by which compaction and merges make structure changes durable, and the records that they may not lose.

use ecotone_substrate::{Result, Seq, bug, table::FileIdentity};

use crate::{log::Address, structure::ManifestEdit};

/// The records promised to survive a crash of the machine, beside those in the database's log (hash-protocol.md,
/// invariant 35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DurabilityPromise {
    /// FLOOR: records below this address that were the newest of their keys when the hot log ended here.
    pub(super) floor: Address,
    /// Addresses below are durable in segments.
    pub(super) durable: Address,
}

impl DurabilityPromise {
    /// Whether a record may be dropped for the newest of its key, when all below `until` leaves the log.
    pub(super) fn may_drop(&self, record: Address, newest: Address, until: Address) -> bool {
        // A newest record that leaves the log in the same compaction is itself kept or dropped by this rule; for
        // promised records the result is the same.
        let kept_below = if newest < until { self.floor } else { self.durable };
        record >= self.floor || newest < kept_below || bug!(SupersedeUnsynced)
    }
}

/// The disk budget of a keyspace, and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Maximum bytes of its files together.
    pub(crate) limit: u64,
    pub(crate) used: u64,
    /// Bytes of the next segment.
    pub(crate) segment: u64,
}

/// Makes structure changes durable, in the order in which they are installed.
pub(crate) trait Install {
    /// Allocates the name of a run, with a birth that no file of the keyspace has or had.
    ///
    /// # Errors
    /// If nothing can be written.
    fn name(&self) -> Result<FileIdentity>;

    /// Whether the database's log contains the writes of the keyspace.
    fn is_logged(&self) -> bool;

    /// FLOOR: the end of the hot log at the last flush of an unlogged keyspace. It does not change while the compaction
    /// lock is held.
    fn durable_floor(&self) -> Address;

    /// Number of hash bits by which chains on disk are found, before those of a tag.
    fn index_bits(&self) -> u8;

    /// The disk budget, if there is one.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// Syncs the database's log: records logged before this call are durable when it returns.
    fn sync_log(&self) -> Result<()>;

    /// Appends the log record of a change, and calls `publish` once, at the record's position in the log. If it fails,
    /// it has not called `publish` and nothing has changed.
    fn install(&self, change: &ManifestEdit, publish: &mut dyn FnMut()) -> Result<Seq>;

    /// Makes the log record of a change durable, and removes the files that it has dropped.
    fn finish(&self, record: Seq) -> Result<()>;

    /// Whether a record is synced.
    fn is_synced(&self, record: Seq) -> bool;
}
