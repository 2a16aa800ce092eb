//! Changes of covers, as the log has them (`docs/format/adaptive.md`, "Structural records").

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_KEY,
};

use super::Place;

const COVER: u8 = 1;
const RAISE: u8 = 2;
const OPEN: u8 = 3;
const UNCOVER: u8 = 4;
const LIFT: u8 = 5;

/// What becomes of a range of keys, the upper bound excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverEdit {
    /// Its first key.
    pub lower: Vec<u8>,
    /// The first key behind it, which is above the other.
    pub upper: Vec<u8>,
    /// What it becomes.
    pub becomes: Become,
}

/// What a range becomes. All but the first and the last can be of ranges alone that are covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Become {
    /// Covered, which none of it is, with this floor.
    Covered(Place),
    /// What it is, with this floor where that is younger.
    Raised(Place),
    /// Covered without a floor.
    Open,
    /// Not covered.
    Uncovered,
    /// What it is, but that covers which lie wholly in it and have a floor get this one where it is younger.
    Lifted(Place),
}

impl Become {
    /// The floor that it brings.
    pub(super) fn floor(self) -> Option<Place> {
        match self {
            Become::Covered(floor) | Become::Raised(floor) | Become::Lifted(floor) => Some(floor),
            Become::Open | Become::Uncovered => None,
        }
    }
}

impl CoverEdit {
    pub(super) fn encode(&self, w: &mut Writer) {
        let kind = match self.becomes {
            Become::Covered(_) => COVER,
            Become::Raised(_) => RAISE,
            Become::Open => OPEN,
            Become::Uncovered => UNCOVER,
            Become::Lifted(_) => LIFT,
        };
        w.u8(kind).prefixed(&self.lower).prefixed(&self.upper);
        self.becomes.floor().iter().for_each(|floor| floor.encode(w));
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<CoverEdit, Malformed> {
        let kind = r.u8()?;
        let (lower, upper) = (r.prefixed(MAX_KEY)?.to_vec(), r.prefixed(MAX_KEY)?.to_vec());
        let becomes = match kind {
            COVER => Become::Covered(Place::decode(r)?),
            RAISE => Become::Raised(Place::decode(r)?),
            OPEN => Become::Open,
            UNCOVER => Become::Uncovered,
            LIFT => Become::Lifted(Place::decode(r)?),
            _ => return r.fail("there is no such change of a cover"),
        };
        Ok(CoverEdit { lower, upper, becomes })
    }
}
