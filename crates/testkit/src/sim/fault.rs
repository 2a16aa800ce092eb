//! Ordered faults, by the index of the I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use rand::{RngExt, rngs::SmallRng};

/// The faults that a test has ordered.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) crash_at: Option<u64>,
    pub(super) failures: BTreeMap<u64, io::ErrorKind>,
    pub(super) misplaced: BTreeSet<u64>,
    pub(super) panics: BTreeSet<u64>,
}

/// The outcome of one I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It succeeds.
    Normal,
    /// A write goes to another place of the same file and reports success; any other I/O succeeds.
    Misplaced,
    /// It fails with this error.
    Fails(io::ErrorKind),
    /// The machine stops in the middle of it.
    Crash,
}

impl Fate {
    /// Whether work that cannot be done in part takes effect; a crash may come before it or after it.
    pub(super) fn takes_effect(self, random: &mut SmallRng) -> bool {
        match self {
            Fate::Normal | Fate::Misplaced => true,
            Fate::Fails(_) => false,
            Fate::Crash => random.random(),
        }
    }
}

impl Plan {
    pub(super) fn fate(&mut self, index: u64) -> Fate {
        assert!(!self.panics.remove(&index), "a panic was ordered for I/O {index}");
        if self.crash_at.is_some_and(|at| at <= index) {
            Fate::Crash
        } else if let Some(kind) = self.failures.remove(&index) {
            Fate::Fails(kind)
        } else if self.misplaced.remove(&index) {
            Fate::Misplaced
        } else {
            Fate::Normal
        }
    }
}
