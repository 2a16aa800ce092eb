//! Edits of paged ranges, as the log has them (`docs/format/adaptive.md`, "Structural records").

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_KEY,
};

use crate::manifest::RunId;

const ADD: u8 = 1;
const SUPERSEDE: u8 = 2;
const REACTIVATE: u8 = 3;
const REMOVE: u8 = 4;
const SUPERSEDE_WITHIN: u8 = 5;

/// A change of the paged ranges within a key range, the upper bound excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagedRangeEdit {
    /// Its first key.
    pub lower: Vec<u8>,
    /// The first key behind it, which is above `lower`.
    pub upper: Vec<u8>,
    /// The change.
    pub kind: RangeEditKind,
}

/// How a range changes. All kinds but `Add` and `SupersedeContained` require that all keys of the range are in paged
/// ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeEditKind {
    /// Becomes a paged range with this `superseded_from`. No key of it may be in a paged range yet.
    Add(RunId),
    /// Keeps its paged ranges, with this `superseded_from` where it is younger than theirs.
    Supersede(RunId),
    /// Loses `superseded_from`: all table records are visible again.
    Reactivate,
    /// Is no longer in a paged range.
    Remove,
    /// Keeps its paged ranges. Those that lie wholly within it and have a `superseded_from` get this one if it is
    /// younger.
    SupersedeContained(RunId),
}

impl RangeEditKind {
    /// The run that the edit names, if any.
    pub(super) fn superseded_from(self) -> Option<RunId> {
        match self {
            RangeEditKind::Add(superseded_from)
            | RangeEditKind::Supersede(superseded_from)
            | RangeEditKind::SupersedeContained(superseded_from) => Some(superseded_from),
            RangeEditKind::Reactivate | RangeEditKind::Remove => None,
        }
    }
}

impl PagedRangeEdit {
    pub(super) fn encode(&self, w: &mut Writer) {
        let kind = match self.kind {
            RangeEditKind::Add(_) => ADD,
            RangeEditKind::Supersede(_) => SUPERSEDE,
            RangeEditKind::Reactivate => REACTIVATE,
            RangeEditKind::Remove => REMOVE,
            RangeEditKind::SupersedeContained(_) => SUPERSEDE_WITHIN,
        };
        w.u8(kind).prefixed(&self.lower).prefixed(&self.upper);
        self.kind.superseded_from().iter().for_each(|superseded_from| superseded_from.encode(w));
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<PagedRangeEdit, Malformed> {
        let kind = r.u8()?;
        let (lower, upper) = (r.prefixed(MAX_KEY)?.to_vec(), r.prefixed(MAX_KEY)?.to_vec());
        let kind = match kind {
            ADD => RangeEditKind::Add(RunId::decode(r)?),
            SUPERSEDE => RangeEditKind::Supersede(RunId::decode(r)?),
            REACTIVATE => RangeEditKind::Reactivate,
            REMOVE => RangeEditKind::Remove,
            SUPERSEDE_WITHIN => RangeEditKind::SupersedeContained(RunId::decode(r)?),
            _ => return r.fail("there is no such change of a paged range"),
        };
        Ok(PagedRangeEdit { lower, upper, kind })
    }
}
