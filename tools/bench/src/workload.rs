//! What kinds of operations come how often.

use clap::ValueEnum;
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::{distribution::Shape, zipf::below};

/// The workloads by name: YCSB's six, and two that only write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// 50% reads, 50% updates.
    A,
    /// 95% reads, 5% updates.
    B,
    /// Reads.
    C,
    /// 95% reads, of the newest by default, 5% inserts.
    D,
    /// 95% scans of 1 to 100 records, 5% inserts.
    E,
    /// 50% reads, 50% read-modify-writes.
    F,
    /// Inserts of new records into a loaded store.
    Insert,
    /// The load itself.
    Load,
}

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Read a record.
    Read,
    /// Write a record that is there.
    Update,
    /// Write the next new record.
    Insert,
    /// Read some records in order.
    Scan,
    /// Read a record and write it, atomically.
    Modify,
    /// Write a given record for the first time.
    Load,
}

/// Longest scan in records; the lengths are uniform from 1.
const LONGEST_SCAN: u64 = 100;

impl Workload {
    /// Draws the kind of an operation.
    pub(crate) fn sample(self, rng: &mut impl Rng) -> Kind {
        let (mostly, percent, else_) = match self {
            Workload::A => (Kind::Read, 50, Kind::Update),
            Workload::B => (Kind::Read, 95, Kind::Update),
            Workload::C => return Kind::Read,
            Workload::D => (Kind::Read, 95, Kind::Insert),
            Workload::E => (Kind::Scan, 95, Kind::Insert),
            Workload::F => (Kind::Read, 50, Kind::Modify),
            Workload::Insert => return Kind::Insert,
            Workload::Load => return Kind::Load,
        };
        if below(rng.next_u64(), 100).0 < percent { mostly } else { else_ }
    }

    /// Whether it adds records.
    pub(crate) fn inserts(self) -> bool {
        matches!(self, Workload::D | Workload::E | Workload::Insert)
    }

    /// Whether it writes records that are there, so that their versions must be remembered.
    pub(crate) fn updates(self) -> bool {
        matches!(self, Workload::A | Workload::B | Workload::F)
    }

    /// Whether its operations read single records, so that a miss ratio says how many device reads an operation takes.
    pub(crate) fn reads_points(self) -> bool {
        matches!(self, Workload::A | Workload::B | Workload::C | Workload::F)
    }

    /// The distribution that YCSB gives it.
    pub(crate) fn usual_shape(self) -> Shape {
        match self {
            Workload::D => Shape::Latest,
            Workload::Insert | Workload::Load => Shape::Uniform,
            _ => Shape::Zipfian,
        }
    }
}

/// Draws the length of a scan.
pub(crate) fn scan_length(rng: &mut impl Rng) -> u8 {
    (1 + below(rng.next_u64(), LONGEST_SCAN).0) as u8
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    #[test]
    fn mixes_are_those_of_ycsb() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut share = |workload: Workload, kind| (0..100_000).filter(|_| workload.sample(&mut rng) == kind).count() / 100;
        for (workload, kind, permille) in [
            (Workload::A, Kind::Update, 500),
            (Workload::B, Kind::Update, 50),
            (Workload::C, Kind::Read, 1000),
            (Workload::D, Kind::Insert, 50),
            (Workload::E, Kind::Scan, 950),
            (Workload::F, Kind::Modify, 500),
            (Workload::Insert, Kind::Insert, 1000),
        ] {
            assert!(share(workload, kind).abs_diff(permille) <= 6, "{workload:?}");
        }
    }

    #[test]
    fn scans_have_1_to_100_records() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut seen = [0u32; 101];
        (0..100_000).for_each(|_| seen[usize::from(scan_length(&mut rng))] += 1);
        assert!(seen[0] == 0 && seen[1..].iter().all(|&count| (800..1200).contains(&count)));
    }
}
