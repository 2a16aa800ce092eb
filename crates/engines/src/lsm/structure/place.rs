//! Where a table of a keyspace is.

use std::cmp::{Ordering, Reverse};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_LEVELS,
};

/// No run has an ordinal so high.
const ORDINALS: u64 = 1 << 56;

/// A row of tables whose ranges do not touch. The younger of two is the lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A run of level 0, by its ordinal, which is above those of all older runs.
    Run(u64),
    /// A level, by its depth: 1 is the last, 2 the one above it.
    Level(u8),
}

impl Place {
    /// The run or the level may be.
    pub(super) fn is_possible(self) -> bool {
        match self {
            Place::Run(ordinal) => ordinal < ORDINALS,
            Place::Level(depth) => (1..=MAX_LEVELS).contains(&depth),
        }
    }

    /// Whether it is in level 0.
    pub fn is_run(self) -> bool {
        matches!(self, Place::Run(_))
    }

    fn age(self) -> (bool, Reverse<u64>) {
        match self {
            Place::Run(ordinal) => (false, Reverse(ordinal)),
            Place::Level(depth) => (true, Reverse(depth.into())),
        }
    }

    pub(super) fn encode(self, w: &mut Writer) {
        match self {
            Place::Run(ordinal) => w.u8(0).varint(ordinal),
            Place::Level(depth) => w.u8(depth),
        };
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Place, Malformed> {
        let place = match r.u8()? {
            0 => Place::Run(r.varint()?),
            depth => Place::Level(depth),
        };
        if place.is_possible() { Ok(place) } else { r.fail("there is no such run or level") }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        self.age().cmp(&other.age())
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_from_young_to_old() {
        let places = [Place::Run(900), Place::Run(2), Place::Run(0), Place::Level(3), Place::Level(2), Place::Level(1)];
        assert!(places.is_sorted_by(|a, b| a < b));
    }
}
