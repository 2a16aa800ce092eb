//! The order in which keys arrive, and the numbers that start synthetic keys.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::measure::permutation::{Permutation, mix};

/// Which record has which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// By a fixed bijection, so that neighbours do not follow each other.
    Shuffled,
    /// As they stand in the file of keys.
    Arrival,
    /// Synthetic keys that rise. With several threads nearly so.
    Ascending,
    /// That fall.
    Descending,
    /// In turn above and below all before.
    Zigzag,
    /// In bursts of 256 keys of one prefix, in no order within it.
    Bursts,
    /// At 256 places in turn, rising at each.
    Places,
}

impl Order {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Shuffled => "shuffled",
            Order::Arrival => "arrival",
            Order::Ascending => "ascending",
            Order::Descending => "descending",
            Order::Zigzag => "zigzag",
            Order::Bursts => "bursts",
            Order::Places => "places",
        }
    }
}

/// The first key of orders that grow both ways.
const MIDDLE: u64 = 1 << 62;
/// Bits of a position within a burst, and of the number of a place.
const BITS: u32 = 8;
const MANY: u64 = 1 << BITS;
/// An odd multiplier that mixes the positions within a burst.
const STEP: u64 = 167;
const SEED: u64 = 0x5eed_0004;

/// The numbers of the records' keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbering {
    order: Order,
    bursts: Permutation,
}

impl Numbering {
    pub(super) fn new(order: Order) -> Self {
        Numbering { order, bursts: Permutation::of_bits(u64::BITS - 2 * BITS, SEED) }
    }

    /// The number of a record; distinct for each record below 2⁵⁶.
    pub(super) fn apply(&self, record: u64) -> u64 {
        let (above, within) = (record / MANY, record % MANY);
        match self.order {
            Order::Shuffled | Order::Arrival => mix(record),
            Order::Ascending => record,
            Order::Descending => MIDDLE - record,
            Order::Zigzag if record.is_multiple_of(2) => MIDDLE + record / 2,
            Order::Zigzag => MIDDLE - 1 - record / 2,
            Order::Bursts => (self.bursts.apply(above) << BITS) | (within.wrapping_mul(STEP) % MANY),
            Order::Places => within << (u64::BITS - BITS) | above,
        }
    }

    /// Whether the possible numbers are evenly spread.
    pub(super) fn is_even(&self) -> bool {
        matches!(self.order, Order::Shuffled | Order::Arrival)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn numbers(order: Order, many: u64) -> Vec<u64> {
        let numbering = Numbering::new(order);
        (0..many).map(|record| numbering.apply(record)).collect()
    }

    #[test]
    fn every_record_has_a_number_of_its_own() {
        for order in Order::value_variants() {
            let numbers = numbers(*order, 100_000);
            assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "{order:?}");
        }
    }

    #[test]
    fn numbers_come_in_their_order() {
        assert!(numbers(Order::Ascending, 1000).is_sorted());
        assert!(numbers(Order::Descending, 1000).iter().rev().is_sorted());
        let zigzag = numbers(Order::Zigzag, 1000);
        assert!((2..1000).all(|at| {
            let before = &zigzag[..at];
            zigzag[at] > *before.iter().max().unwrap() || zigzag[at] < *before.iter().min().unwrap()
        }));
        let bursts = numbers(Order::Bursts, 10 * MANY);
        assert!(bursts.chunks(MANY as usize).all(|burst| burst.iter().all(|number| number / MANY == burst[0] / MANY)));
        assert!(!bursts[..MANY as usize].is_sorted() && !bursts.iter().step_by(MANY as usize).is_sorted());
        let places = numbers(Order::Places, 10 * MANY);
        assert!((0..MANY as usize).all(|place| places.iter().skip(place).step_by(MANY as usize).is_sorted()));
    }
}
