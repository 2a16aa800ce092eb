//! A bucket of the hot index: the entries of one cache line, and a control word that names the bucket in which they go
//! on.

use ecotone_sys::{
    prefetch::prefetch_read,
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::{control::Control, entry::Entry};

/// Entries of a bucket. With loom so few that all orders can be tried.
pub(super) const ENTRIES: usize = if cfg!(feature = "loom") { 2 } else { 7 };
/// Words of a bucket, the control word last.
pub(super) const BUCKET_WORDS: usize = ENTRIES + 1;

/// Some words of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket<'a>(&'a [AtomicU64; BUCKET_WORDS]);

impl<'a> Bucket<'a> {
    /// Bucket `number` of a block.
    #[inline]
    pub(super) fn new(words: &'a Words, number: usize) -> Bucket<'a> {
        Bucket(words[number * BUCKET_WORDS..].first_chunk().expect("a block has whole buckets"))
    }

    /// Asks for it.
    pub(super) fn prefetch(self) {
        prefetch_read(&self.0[0]);
    }

    /// Its entries.
    #[inline]
    pub(super) fn entries(self) -> impl Iterator<Item = Place<'a>> {
        self.0[..ENTRIES].iter().map(Place)
    }

    /// Its control word. To be read behind the entries by who asks whether they were frozen then, since it is frozen
    /// before them.
    #[inline]
    pub(super) fn control(self) -> Control {
        Control::from_word(self.control_word().load(Ordering::Acquire))
    }

    /// Lets it go on in an overflow bucket, unless it does in another or is frozen.
    pub(super) fn set_overflow(self, number: u64) -> bool {
        self.exchange_control(Control::END, Control::to(number))
    }

    /// Makes it final: first that it gets no overflow bucket, then its entries.
    pub(super) fn freeze(self) {
        self.control_word().fetch_or(Control::FROZEN, Ordering::AcqRel);
        self.0[..ENTRIES].iter().for_each(|word| {
            word.fetch_or(Entry::FROZEN, Ordering::AcqRel);
        });
    }

    /// All that it and its overflow buckets had is in the next table from now on.
    pub(super) fn set_split(self) {
        self.control_word().fetch_or(Control::SPLIT, Ordering::AcqRel);
    }

    /// Gives an unmade bucket its entries, of which there may be fewer than it has places, and where it goes on. All
    /// who do that give the same.
    pub(super) fn make(self, entries: impl Iterator<Item = Entry>, control: Control) {
        let entries = entries.chain(std::iter::repeat(Entry::FREE));
        for (place, entry) in self.entries().zip(entries) {
            let _ = place.exchange(Entry::UNMADE, entry);
        }
        self.exchange_control(Control::UNMADE, control);
    }

    /// Takes an unmade bucket for oneself, without entries. Whether nobody else has.
    pub(super) fn claim(self) -> bool {
        let claimed = self.exchange_control(Control::UNMADE, Control::END);
        if claimed {
            self.0[..ENTRIES].iter().for_each(|word| word.store(Entry::FREE.word(), Ordering::Relaxed));
        }
        claimed
    }

    /// Gives up a bucket that was claimed and that nobody else knows.
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

/// Where an entry is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a>(&'a AtomicU64);

impl Place<'_> {
    /// The entry that is there now. What it names can be looked at.
    #[inline]
    pub(crate) fn load(self) -> Entry {
        Entry::from_word(self.0.load(Ordering::Acquire))
    }

    /// Replaces it, if it is still `from`; else what it is, which may be frozen: whoever goes on finds it anew. What
    /// was written before can be looked at by who finds `to`.
    pub(crate) fn exchange(self, from: Entry, to: Entry) -> Result<(), Entry> {
        let result = self.0.compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire);
        result.map(drop).map_err(Entry::from_word)
    }
}
