//! A bucket of the hot index: the entries of one cache line, and a control word that names the bucket in which they go on.

use ecotone_sys::{
    prefetch::prefetch_read,
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::entry::Entry;

/// Entries of a bucket. With loom so few that all orders can be tried.
pub(super) const ENTRIES: usize = if cfg!(feature = "loom") { 2 } else { 7 };
/// Words of a bucket, the control word last.
pub(super) const BUCKET_WORDS: usize = ENTRIES + 1;

/// Some words of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket<'a>(&'a [AtomicU64]);

impl<'a> Bucket<'a> {
    /// Bucket `number` of a block.
    pub(super) fn new(words: &'a Words, number: usize) -> Bucket<'a> {
        Bucket(&words[number * BUCKET_WORDS..][..BUCKET_WORDS])
    }

    /// Asks for it.
    pub(super) fn prefetch(self) {
        prefetch_read(&self.0[0]);
    }

    /// Its entries.
    pub(super) fn entries(self) -> impl Iterator<Item = Place<'a>> {
        self.0[..ENTRIES].iter().map(Place)
    }

    /// Number of the overflow bucket in which it goes on.
    pub(super) fn overflow(self) -> Option<u64> {
        self.control().load(Ordering::Acquire).checked_sub(1)
    }

    /// Lets it go on in an overflow bucket, unless it does in another.
    pub(super) fn set_overflow(self, number: u64) -> bool {
        self.control().compare_exchange(0, number + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn control(self) -> &'a AtomicU64 {
        &self.0[ENTRIES]
    }
}

/// Where an entry is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a>(&'a AtomicU64);

impl Place<'_> {
    /// The entry that is there now. What it names can be looked at.
    pub(crate) fn load(self) -> Entry {
        Entry::from_word(self.0.load(Ordering::Acquire))
    }

    /// Replaces it, if it is still `from`; else what it is. What was written before can be looked at by who finds `to`.
    pub(crate) fn exchange(self, from: Entry, to: Entry) -> Result<(), Entry> {
        let result = self.0.compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire);
        result.map(drop).map_err(Entry::from_word)
    }
}
