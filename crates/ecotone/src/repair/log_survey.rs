//! The findings of the first pass over the log of a damaged database.

use std::collections::BTreeSet;

use ecotone_substrate::Seq;

/// The result of the first pass over the log.
#[derive(Debug, Default)]
pub(super) struct LogSurvey {
    /// Keyspaces that the log has operations of.
    pub(super) keyspaces: BTreeSet<u32>,
    /// Whether the log begins with the first record ever written.
    pub(super) has_all: bool,
    /// The position of the first gap.
    pub(super) gap: Option<Seq>,
}
