//! Size classes: the slots of one slab have one size.

use ecotone_substrate::limits::MAX_RECORD;
use ecotone_sys::chunk::Size;

use super::record::LONG_HEADER;

/// Bytes of a slab.
pub(super) const SLAB: usize = Size::Slab.bytes();
/// Number of classes.
pub(super) const CLASSES: usize = 96;
/// Bytes of the largest slot.
pub(super) const LARGEST: usize = 1984;

const _: () = assert!(LONG_HEADER + MAX_RECORD <= LARGEST && LARGEST == Class(95).bytes() && SLAB / Class(0).bytes() <= 1 << 12);

/// A size class. Steps are 4 bytes up to 160, then about 3 to 6 percent.
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
            0..=16 => 0,
            17..=160 => (bytes - 16).div_ceil(4),
            161..=256 => 36 + (bytes - 160).div_ceil(8),
            257..=512 => 48 + (bytes - 256).div_ceil(16),
            513..=1024 => 64 + (bytes - 512).div_ceil(32),
            _ => 80 + (bytes - 1024).div_ceil(64),
        };
        Class(number as u8)
    }

    /// Bytes of its slots.
    pub(super) const fn bytes(self) -> usize {
        let n = self.0 as usize;
        match n {
            0..=36 => 16 + n * 4,
            37..=48 => 160 + (n - 36) * 8,
            49..=64 => 256 + (n - 48) * 16,
            65..=80 => 512 + (n - 64) * 32,
            _ => 1024 + (n - 80) * 64,
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
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        for bytes in 1..=LARGEST {
            let class = Class::of(bytes);
            assert!(class.bytes() >= bytes, "{bytes}");
            assert!(class.0 == 0 || Class(class.0 - 1).bytes() < bytes, "{bytes}");
        }
        assert_eq!(Class(0).larger().last().map(Class::bytes), Some(LARGEST));
    }
}
