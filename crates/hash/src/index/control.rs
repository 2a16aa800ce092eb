//! The control word of a bucket: the number of its overflow bucket, and how far its split has come (hash-protocol.md,
//! "Growth of the index").

/// The number of an overflow bucket or none, a bit for frozen, and a bit for split (all entries are in the next table).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Control(u64);

impl Control {
    /// No overflow bucket follows.
    pub(super) const END: Control = Control(0);
    /// Bit of a bucket that can get no overflow bucket any more.
    pub(super) const FROZEN: u64 = 1 << 63;
    /// Bit of a bucket whose entries are all in the next table.
    pub(super) const SPLIT: u64 = 1 << 62;
    /// A bucket that is not made yet, or that no thread has claimed.
    pub(super) const UNMADE: Control = Control(u64::MAX);

    /// An overflow bucket follows.
    pub(super) fn to(number: u64) -> Control {
        debug_assert!(number < Self::SPLIT - 1);
        Control(number + 1)
    }

    /// From the word.
    pub(super) const fn from_word(word: u64) -> Control {
        Control(word)
    }

    /// The word.
    pub(super) const fn word(self) -> u64 {
        self.0
    }

    /// Number of the overflow bucket that follows.
    pub(super) fn overflow(self) -> Option<u64> {
        (self.0 & !(Self::FROZEN | Self::SPLIT)).checked_sub(1)
    }

    pub(super) fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }

    pub(super) fn is_split(self) -> bool {
        self.0 & Self::SPLIT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_still_says_where_it_goes_on() {
        for number in [None, Some(0), Some(1 << 40)] {
            let control = number.map_or(Control::END, Control::to);
            assert_eq!((control.overflow(), control.is_frozen(), control.is_split()), (number, false, false));
            let frozen = Control::from_word(control.word() | Control::FROZEN);
            assert_eq!((frozen.overflow(), frozen.is_frozen(), frozen.is_split()), (number, true, false));
            let split = Control::from_word(frozen.word() | Control::SPLIT);
            assert_eq!((split.overflow(), split.is_frozen(), split.is_split()), (number, true, true));
            assert_ne!(split, Control::UNMADE);
        }
    }
}
