//! Who makes durable what compaction, folds and merges change of what a keyspace consists of, and what they may not
//! lose.

use ecotone_substrate::{Result, Seq, bug, table::Name};

use crate::hash::{log::Address, structure::Change};

/// What has been promised to survive the machine beside what the database's log has (decision 10, invariant 35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Promised {
    /// FLOOR: records below this address, that were the newest when the hot log ended here.
    pub(super) floor: Address,
    /// What lies below is durable in segments.
    pub(super) durable: Address,
}

impl Promised {
    /// Whether a record may be left behind for the newest of its key, when all below `until` leaves the log.
    pub(super) fn lets_go(&self, record: Address, newest: Address, until: Address) -> bool {
        // What leaves the log with it is judged by itself, and for what is promised comes to the same.
        let kept_below = if newest < until { self.floor } else { self.durable };
        record >= self.floor || newest < kept_below || bug!(SupersedeUnsynced)
    }
}

/// What a keyspace may have of the disk, and has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Bytes that its files may have together.
    pub(crate) limit: u64,
    pub(crate) used: u64,
    /// Those of the next segment.
    pub(crate) segment: u64,
}

/// Makes changes durable, in the order in which they are installed.
pub(crate) trait Install {
    /// A name for a run, with a birth that no file of the keyspace has or had.
    ///
    /// # Errors
    /// If nothing can be written.
    fn name(&self) -> Result<Name>;

    /// Whether the database's log has what is written.
    fn is_logged(&self) -> bool;

    /// FLOOR: the end of the hot log at the last flush of a keyspace that is not logged. It stays while a compaction
    /// has its turn.
    fn floor(&self) -> Address;

    /// By how many bits of a hash chains that are on disk go, before those of a tag.
    fn index_bits(&self) -> u8;

    /// The budget of disk, if there is one.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// What was logged before this call is durable when it returns.
    fn settle(&self) -> Result<()>;

    /// Appends the record of a change, and calls `publish` once, at the place of the record in the log. If it fails, it
    /// has not called it and nothing has changed.
    fn install(&self, change: &Change, publish: &mut dyn FnMut()) -> Result<Seq>;

    /// Makes the record of a change durable, and removes the files that it has dropped.
    fn conclude(&self, record: Seq) -> Result<()>;

    /// Whether a record is synced.
    fn is_synced(&self, record: Seq) -> bool;
}
