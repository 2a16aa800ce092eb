//! What slows down writers and background jobs of a keyspace (compaction-pace.md).

pub(crate) mod compaction_throttle;
pub(crate) mod disk_shortage;
pub(crate) mod write_stall;

use ecotone_substrate::metrics::Histogram;

use self::{disk_shortage::DiskShortage, write_stall::WriteStall};

/// What slows down writers and background jobs of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    pub(crate) stall: WriteStall,
    pub(crate) shortage: DiskShortage,
    /// How long writers are delayed.
    pub(crate) delays: Histogram,
}
