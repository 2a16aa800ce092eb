//! The operations of a workload: their kinds and frequencies.

use rand::Rng;

use crate::{measure::zipf::below, row::Workload};

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Read a record.
    Read,
    /// Write an existing record.
    Update,
    /// Write the next new record.
    Insert,
    /// Read some records in order.
    Scan,
    /// Read a record and write it, atomically.
    Modify,
    /// Write a given record for the first time.
    Load,
    /// Write the next new record and remove the first one.
    PushPop,
    /// Remove the first record.
    PopFirst,
    /// Remove the last record.
    PopLast,
    /// Read the first record.
    First,
}

/// Longest scan in records; the lengths are uniform from 1.
const LONGEST_SCAN: u64 = 100;

/// Two kinds of operations and their frequencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    first: Kind,
    second: Kind,
    /// A uniform 64-bit number below this draws the first kind; `None` for the first kind alone.
    bound: Option<u64>,
}

impl Mix {
    /// The mix of a workload; `read_share` is the fraction of reads beside the inserts of `Insert`.
    pub(crate) fn new(workload: Workload, read_share: f64) -> Self {
        match workload {
            Workload::A => Mix::of_two(Kind::Read, 0.5, Kind::Update),
            Workload::B => Mix::of_two(Kind::Read, 0.95, Kind::Update),
            Workload::C => Mix::only(Kind::Read),
            Workload::D => Mix::of_two(Kind::Read, 0.95, Kind::Insert),
            Workload::E | Workload::Adapt => Mix::of_two(Kind::Scan, 0.95, Kind::Insert),
            Workload::F => Mix::of_two(Kind::Read, 0.5, Kind::Modify),
            Workload::Update => Mix::only(Kind::Update),
            Workload::Insert => Mix::of_two(Kind::Read, read_share, Kind::Insert),
            Workload::Load => Mix::only(Kind::Load),
            Workload::Queue => Mix::only(Kind::PushPop),
            Workload::Drain => Mix::of_two(Kind::PopFirst, 0.5, Kind::PopLast),
            Workload::First => Mix::only(Kind::First),
        }
    }

    /// Operations of one kind.
    pub(crate) fn only(kind: Kind) -> Self {
        Mix { first: kind, second: kind, bound: None }
    }

    /// A mix in which a fraction `share`, 0 to 1, is of the first kind, and the rest of the second.
    fn of_two(first: Kind, share: f64, second: Kind) -> Self {
        // The conversion saturates as intended.
        Mix { first, second, bound: Some((share * 2f64.powi(64)) as u64) }
    }

    /// Draws the kind of an operation.
    pub(crate) fn sample(self, rng: &mut impl Rng) -> Kind {
        if self.bound.is_none_or(|bound| rng.next_u64() < bound) { self.first } else { self.second }
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
        let mut share = |workload: Workload, kind| {
            let mix = Mix::new(workload, 0.3);
            (0..100_000).filter(|_| mix.sample(&mut rng) == kind).count() / 100
        };
        for (workload, kind, permille) in [
            (Workload::A, Kind::Update, 500),
            (Workload::B, Kind::Update, 50),
            (Workload::C, Kind::Read, 1000),
            (Workload::D, Kind::Insert, 50),
            (Workload::E, Kind::Scan, 950),
            (Workload::Adapt, Kind::Scan, 950),
            (Workload::F, Kind::Modify, 500),
            (Workload::Update, Kind::Update, 1000),
            (Workload::Insert, Kind::Insert, 700),
            (Workload::Drain, Kind::PopLast, 500),
        ] {
            assert!(share(workload, kind).abs_diff(permille) <= 6, "{workload:?}");
        }
        let (inserts, mut rng) = (Mix::new(Workload::Insert, 0.0), SmallRng::seed_from_u64(2));
        assert!((0..100_000).all(|_| inserts.sample(&mut rng) == Kind::Insert));
    }

    #[test]
    fn scans_have_1_to_100_records() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut seen = [0u32; 101];
        (0..100_000).for_each(|_| seen[usize::from(scan_length(&mut rng))] += 1);
        assert!(seen[0] == 0 && seen[1..].iter().all(|&count| (800..1200).contains(&count)));
    }
}
