//! Size classes: the slots of one slab have one size.

use ecotone_substrate::limits::MAX_RECORD;
use ecotone_sys::chunk::Size;

use super::record::LONG_HEADER;

/// Bytes of a slab.
pub(super) const SLAB: usize = Size::Slab.bytes();
/// Number of classes.
pub(super) const CLASSES: usize = 94;
/// Bytes of the largest slot.
pub(super) const LARGEST: usize = 1936;

const _: () = assert!(LONG_HEADER + MAX_RECORD <= LARGEST && LARGEST == Class(93).bytes() && SLAB / Class(0).bytes() <= 1 << 12);

/// A size class. Steps are 4 bytes up to 162, then about 3 to 7 percent; they are laid so that records of 16, 32, 64, 128, 512 and 1024 bytes and their
/// headers lose at most 6 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class(pub(super) u8);

impl Class {
    /// The smallest class for a record of `bytes`, header included.
    ///
    /// # Panics
    /// Beyond the largest class: limits are checked before a record comes here.
    pub(super) fn of(bytes: usize) -> Class {
        assert!(bytes <= LARGEST, "a record of {bytes} bytes was not refused");
        let number = match bytes {
            0..=18 => 0,
            19..=162 => (bytes - 18).div_ceil(4),
            163..=258 => 36 + (bytes - 162).div_ceil(8),
            259..=528 => 48 + (bytes - 258).div_ceil(18),
            529..=1040 => 63 + (bytes - 528).div_ceil(32),
            _ => 79 + (bytes - 1040).div_ceil(64),
        };
        Class(number as u8)
    }

    /// Bytes of its slots.
    pub(super) const fn bytes(self) -> usize {
        let n = self.0 as usize;
        match n {
            0..=36 => 18 + n * 4,
            37..=48 => 162 + (n - 36) * 8,
            49..=63 => 258 + (n - 48) * 18,
            64..=79 => 528 + (n - 63) * 32,
            _ => 1040 + (n - 79) * 64,
        }
    }

    /// Slots of a slab.
    pub(super) fn slots(self) -> usize {
        SLAB / self.bytes()
    }

    /// The classes with larger slots, in order.
    pub(super) fn larger(self) -> impl Iterator<Item = Class> {
        (self.0 + 1..CLASSES as u8).map(Class)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::{super::record::SHORT_HEADER, *};

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        for bytes in 1..=LARGEST {
            let class = Class::of(bytes);
            assert!(class.bytes() >= bytes, "{bytes}");
            assert!(class.0 == 0 || Class(class.0 - 1).bytes() < bytes, "{bytes}");
        }
        assert_eq!(Class(0).larger().last().map(Class::bytes), Some(LARGEST));
    }

    /// What a record of any size takes beyond key and value if it was read: header, rounding, its part of what is left of the slab, of the table (3.4) and of the
    /// history (0.9).
    #[test]
    fn records_of_any_size_lose_little() {
        let overhead = |record: usize| {
            let class = Class::of(SHORT_HEADER + record);
            SLAB as f64 / class.slots() as f64 - record as f64 + 4.3
        };
        let mean = |sizes: Range<usize>| sizes.clone().map(overhead).sum::<f64>() / sizes.len() as f64;
        for (sizes, most) in [(16..250, 17.1), (250..518, 23.8), (518..1030, 34.1), (1030..1910, 57.1)] {
            println!("{sizes:?}: {:.1} bytes", mean(sizes.clone()));
            assert!(mean(sizes.clone()) <= most, "{sizes:?}");
        }
        assert!((250..1910).all(|record| overhead(record) <= 0.09 * record as f64 + 10.0));
    }

    #[test]
    fn usual_sizes_lose_little() {
        for record in [16, 32, 64, 108, 128, 512, 1024] {
            for bytes in [SHORT_HEADER + record, LONG_HEADER + record] {
                let lost = Class::of(bytes).bytes() - bytes;
                assert!(lost <= 6, "{lost} of a record of {record}");
            }
        }
    }
}
