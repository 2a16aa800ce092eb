//! Identifies a run of level 0 or a level, and so the place of a table in a keyspace. The order of [`RunId`]s is the
//! order in which reads search: younger runs come first.

use std::cmp::{Ordering, Reverse};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_LEVELS,
};

/// Ordinals of runs are below this.
const ORDINALS: u64 = 1 << 56;

/// A run of level 0 or a level: tables whose key ranges do not overlap. The younger of two is the lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunId {
    /// A run of level 0. Its ordinal is above those of all older runs.
    L0(u64),
    /// A level below level 0.
    Level(LevelId),
}

/// A level below level 0, counted from the top: L1 to Lmax, the last. Levels between L0 and the first level that has
/// tables are empty. On disk a level is encoded as its *depth*, which counts from the bottom: 1 is Lmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelId(u8);

impl LevelId {
    /// L1, the uppermost.
    pub const FIRST: LevelId = LevelId(1);
    /// Lmax.
    pub const LAST: LevelId = LevelId(MAX_LEVELS);

    /// The level of this depth, the on-disk form.
    const fn at_depth(depth: u8) -> LevelId {
        LevelId((MAX_LEVELS + 1).wrapping_sub(depth))
    }

    const fn depth(self) -> u8 {
        (MAX_LEVELS + 1).wrapping_sub(self.0)
    }

    /// The next one below, if it is not the last.
    pub const fn below(self) -> Option<LevelId> {
        if self.0 < MAX_LEVELS { Some(LevelId(self.0 + 1)) } else { None }
    }

    /// The next one above, if it is not the uppermost.
    pub const fn above(self) -> Option<LevelId> {
        if self.0 > 1 { Some(LevelId(self.0 - 1)) } else { None }
    }

    /// How many levels there are below it.
    pub fn levels_below(self) -> u8 {
        MAX_LEVELS - self.0
    }

    /// Its number, from 1 on.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl RunId {
    /// The last level.
    pub const LAST: RunId = RunId::Level(LevelId::LAST);

    /// The level of this depth, the on-disk form: 1 is the last.
    pub const fn at_depth(depth: u8) -> RunId {
        RunId::Level(LevelId::at_depth(depth))
    }

    /// Whether the ordinal or the level is within its limits.
    pub(super) fn is_valid(self) -> bool {
        match self {
            RunId::L0(ordinal) => ordinal < ORDINALS,
            RunId::Level(LevelId(number)) => (1..=MAX_LEVELS).contains(&number),
        }
    }

    /// Whether it is in level 0.
    pub fn is_l0(self) -> bool {
        matches!(self, RunId::L0(_))
    }

    fn age(self) -> (Option<LevelId>, Reverse<u64>) {
        match self {
            RunId::L0(ordinal) => (None, Reverse(ordinal)),
            RunId::Level(level) => (Some(level), Reverse(0)),
        }
    }

    pub(super) fn encode(self, w: &mut Writer) {
        match self {
            RunId::L0(ordinal) => w.u8(0).varint(ordinal),
            RunId::Level(level) => w.u8(level.depth()),
        };
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<RunId, Malformed> {
        let run_id = match r.u8()? {
            0 => RunId::L0(r.varint()?),
            depth => RunId::at_depth(depth),
        };
        if run_id.is_valid() { Ok(run_id) } else { r.fail("there is no such run or level") }
    }
}

impl Ord for RunId {
    fn cmp(&self, other: &RunId) -> Ordering {
        self.age().cmp(&other.age())
    }
}

impl PartialOrd for RunId {
    fn partial_cmp(&self, other: &RunId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_from_young_to_old() {
        let places = [RunId::L0(900), RunId::L0(2), RunId::L0(0), RunId::at_depth(3), RunId::at_depth(2), RunId::LAST];
        assert!(places.is_sorted_by(|a, b| a < b));
    }
}
