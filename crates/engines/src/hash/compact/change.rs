//! What compaction, folds and merges change of what a keyspace consists of, and who makes that durable (`docs/format/hash.md`, "Structural records").

use ecotone_substrate::{Result, Seq};

use crate::hash::{
    cold::{Name, Part},
    log::Address,
};

/// A change of what a keyspace consists of. The files that come are synced, with their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// What lives of the hot log below an address is in a younger delta, or nothing does.
    Compact {
        /// The delta.
        comes: Option<Name>,
        /// Where the hot log begins from now on.
        begin: Address,
    },
    /// A partition becomes one or two, of which the bases have all that deltas have that end at or below an address.
    Fold {
        /// The partition and its base.
        goes: Part<Name>,
        /// What comes for it: itself, or its halves.
        comes: Vec<Part<Name>>,
        /// The address.
        folded: u64,
    },
    /// One delta takes the place of neighbours, or none does, since nothing of them counts anywhere.
    Merge {
        /// The neighbours, oldest first.
        goes: Vec<Name>,
        /// The one.
        comes: Option<Name>,
    },
}

/// What of an unlogged keyspace has been promised to survive the machine; of a logged one the log keeps the promise (decision 10, invariant 35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promised {
    /// Records below this address, that were the newest when the log ended here: FLOOR.
    pub(crate) floor: Address,
    /// What lies below is durable in segments.
    pub(crate) durable: Address,
}

impl Promised {
    /// Nothing but what the log has.
    pub(crate) const NOTHING: Promised = Promised { floor: Address::FIRST, durable: Address::FIRST };

    /// Whether a record may be left behind for the newest of its key, when all below `until` leaves the log.
    pub(super) fn lets_go(&self, record: Address, newest: Address, until: Address) -> bool {
        // What leaves the log with it is judged by itself, and for what is promised comes to the same.
        record >= self.floor || newest < if newest < until { self.floor } else { self.durable }
    }
}

/// Makes changes durable, in the order in which they are installed.
pub(crate) trait Install {
    /// A name for a run, with a birth that no file of the keyspace has or had.
    fn name(&self) -> Result<Name>;

    /// What has to survive.
    fn promised(&self) -> Promised;

    /// What was logged before this call is durable when it returns.
    fn settle(&self) -> Result<()>;

    /// Appends the record of a change, and calls `publish` once, at the place of the record in the log. If it fails, it has not called it and nothing has
    /// changed. Files that the change drops are removed when the record is synced.
    fn install(&self, change: &Change, publish: &mut dyn FnMut()) -> Result<Seq>;

    /// Whether a record is synced.
    fn is_synced(&self, record: Seq) -> bool;
}
