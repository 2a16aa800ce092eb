//! A bucket of the hot index: one cache line of entries, and a control word that names the overflow bucket, if there is
//! one.

use ecotone_sys::{
    prefetch::prefetch_read,
    primitive::{
        atomic::{AtomicU64, Ordering},
        unless_loom,
    },
    words::Words,
};

use super::{control::Control, entry::Entry};

/// Entries of a bucket. Loom has so few that it can try all orders.
pub(super) const ENTRIES: usize = unless_loom(7, 2);
/// Words of a bucket, the control word last.
pub(super) const BUCKET_WORDS: usize = ENTRIES + 1;

/// The words of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket<'a>(&'a [AtomicU64; BUCKET_WORDS]);

impl<'a> Bucket<'a> {
    /// Bucket `number` of a block.
    #[inline]
    pub(super) fn new(words: &'a Words, number: usize) -> Bucket<'a> {
        Bucket(words[number * BUCKET_WORDS..].first_chunk().expect("a block has whole buckets"))
    }

    /// Prefetches the bucket.
    pub(super) fn prefetch(self) {
        prefetch_read(&self.0[0]);
    }

    /// The bucket's entries.
    #[inline]
    pub(super) fn entries(self) -> impl Iterator<Item = EntrySlot<'a>> {
        self.0[..ENTRIES].iter().map(EntrySlot)
    }

    /// The bucket's control word. A reader that checks whether the entries were frozen reads the control word after the
    /// entries, since it is frozen before them.
    #[inline]
    pub(super) fn control(self) -> Control {
        Control::from_word(self.control_word().load(Ordering::Acquire))
    }

    /// Links an overflow bucket, unless the bucket has one or is frozen.
    pub(super) fn set_overflow(self, number: u64) -> bool {
        self.exchange_control(Control::END, Control::to(number))
    }

    /// Freezes the bucket: first the control word, so that it gets no overflow bucket, then the entries.
    pub(super) fn freeze_words(self) {
        self.control_word().fetch_or(Control::FROZEN, Ordering::AcqRel);
        self.0[..ENTRIES].iter().for_each(|word| {
            word.fetch_or(Entry::FROZEN, Ordering::AcqRel);
        });
    }

    /// Marks that all entries of the bucket and its overflow buckets are in the next table from now on.
    pub(super) fn set_split(self) {
        self.control_word().fetch_or(Control::SPLIT, Ordering::AcqRel);
    }

    /// Fills an unmade bucket with entries, possibly fewer than it has slots, and a control word. All threads that make
    /// a bucket write the same words.
    pub(super) fn make(self, entries: impl Iterator<Item = Entry>, control: Control) {
        let entries = entries.chain(std::iter::repeat(Entry::FREE));
        for (place, entry) in self.entries().zip(entries) {
            let _ = place.exchange(Entry::UNMADE, entry);
        }
        self.exchange_control(Control::UNMADE, control);
    }

    /// Claims an unmade bucket, without entries. Returns whether no other thread has claimed it.
    pub(super) fn claim(self) -> bool {
        let claimed = self.exchange_control(Control::UNMADE, Control::END);
        if claimed {
            self.0[..ENTRIES].iter().for_each(|word| word.store(Entry::FREE.word(), Ordering::Relaxed));
        }
        claimed
    }

    /// Gives up a claimed bucket that no other thread knows.
    pub(super) fn disclaim(self) {
        self.control_word().store(Control::UNMADE.word(), Ordering::Release);
    }

    fn exchange_control(self, from: Control, to: Control) -> bool {
        self.control_word().compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn control_word(self) -> &'a AtomicU64 {
        &self.0[ENTRIES]
    }
}

/// The position of an entry in a bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntrySlot<'a>(&'a AtomicU64);

impl EntrySlot<'_> {
    /// The entry's current word. The record that it names may be read.
    #[inline]
    pub(crate) fn load(self) -> Entry {
        Entry::from_word(self.0.load(Ordering::Acquire))
    }

    /// Replaces the entry if it is still `from`. Otherwise returns the current word, which may be frozen; the caller
    /// then searches anew. A thread that finds `to` sees all that was written before the exchange.
    pub(crate) fn exchange(self, from: Entry, to: Entry) -> Result<(), Entry> {
        let result = self.0.compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire);
        result.map(drop).map_err(Entry::from_word)
    }
}
