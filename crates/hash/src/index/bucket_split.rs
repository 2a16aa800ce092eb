//! Splits a bucket into two of the next table (hash-protocol.md, "Growth of the index"). All threads that split a
//! bucket at once do the same, and none waits for another.

use ecotone_sys::epoch::Pin;

use super::{
    bucket::{Bucket, ENTRIES},
    control::Control,
    entry::Entry,
    table::Table,
};

impl Table {
    /// Carries the entries of bucket `number` to the next table, unless that is done already.
    pub(super) fn split(&self, number: u64, next: &Table, pin: &Pin<'_>) {
        let first = self.bucket(number);
        if first.control().is_split() {
            return;
        }
        self.freeze_words(first, pin);
        // The entries read from here on are final. An overflow bucket of the next table takes the number of one that is
        // used here: for n entries in a chain of m + 1 buckets, the two halves together need at most m overflow
        // buckets.
        let mut numbers = self.chain(number, pin).filter_map(|bucket| bucket.control().overflow());
        for half in 0..2 {
            self.make(number, half, next, &mut numbers, pin);
        }
        first.set_split();
    }

    /// Freezes a bucket and its overflow buckets.
    fn freeze_words(&self, first: Bucket<'_>, pin: &Pin<'_>) {
        let mut bucket = Some(first);
        while let Some(last) = bucket {
            last.freeze_words();
            // The bucket is frozen, so whether another one follows is final.
            bucket = self.following(last, pin);
        }
    }

    /// Makes one of the two buckets.
    fn make(&self, number: u64, half: u64, next: &Table, numbers: &mut impl Iterator<Item = u64>, pin: &Pin<'_>) {
        let frozen = self.chain(number, pin).flat_map(Bucket::entries).filter_map(|place| place.load().carried());
        let mut entries = frozen.filter(|entry| self.half(*entry) == half).peekable();
        let mut bucket = next.bucket(2 * number + half);
        loop {
            let some: [Option<Entry>; ENTRIES] = std::array::from_fn(|_| entries.next());
            let overflow =
                entries.peek().map(|_| numbers.next().expect("two halves need no more buckets than the whole"));
            bucket.make(some.into_iter().flatten(), overflow.map_or(Control::END, Control::to));
            let Some(overflow) = overflow else { return };
            bucket = next.overflow.get(overflow, pin);
        }
    }
}
