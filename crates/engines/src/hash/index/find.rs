//! Entries by hash: found, or inserted in two phases (decision 10, invariant 15).

use ecotone_sys::{
    epoch::Pin,
    primitive::{
        atomic::{Ordering, fence},
        thread,
    },
};

use super::{
    bucket::{Bucket, Place},
    entry::Entry,
    table::Table,
};
use crate::hash::log::Link;

/// An entry as it was read, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'p> {
    pub(crate) place: Place<'p>,
    pub(crate) entry: Entry,
}

/// What an attempt to insert came to.
enum Attempt<'p> {
    Done(Found<'p>),
    /// Another inserts or has inserted the tag. Nobody can go on with it before that one is through.
    Again,
    /// All overflow buckets are in use.
    NoRoom,
}

impl Table {
    /// The entry of a hash. One that is being inserted is none.
    #[inline]
    pub(crate) fn find<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        let tag = self.tag(hash);
        self.buckets(hash, pin).find_map(|bucket| {
            let mut entries = bucket.entries().map(|place| Found { place, entry: place.load() });
            entries.find(|found| found.entry.is_of(tag))
        })
    }

    /// The entry of a hash, which is inserted without an address if there is none. `None` if that needs an overflow bucket and there is none.
    pub(crate) fn find_or_insert<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Found<'p>> {
        loop {
            if let Some(found) = self.find(hash, pin) {
                return Some(found);
            }
            match self.insert(hash, pin) {
                Attempt::Done(found) => return Some(found),
                Attempt::NoRoom => return None,
                Attempt::Again => thread::yield_now(),
            }
        }
    }

    /// First phase: the tag stands in a free entry, and nobody goes by it. Second phase: nobody else has put it into another.
    fn insert<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Attempt<'p> {
        if self.with_tag(hash, pin).next().is_some() {
            return Attempt::Again;
        }
        let (tentative, entry) = (Entry::tentative(self.tag(hash)), Entry::new(self.tag(hash), Link::NONE));
        let Some(place) = self.free_place(hash, pin) else { return Attempt::NoRoom };
        if place.exchange(Entry::FREE, tentative).is_err() {
            return Attempt::Again;
        }
        // Of two who insert the tag, the one whose fence comes second sees the word of the other.
        fence(Ordering::SeqCst);
        let alone = self.with_tag(hash, pin).count() == 1;
        let settled = place.exchange(tentative, if alone { entry } else { Entry::FREE });
        settled.expect("nobody else changes a tentative entry");
        if alone { Attempt::Done(Found { place, entry }) } else { Attempt::Again }
    }

    /// All entries of the hash's tag, tentative ones too.
    fn with_tag<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> impl Iterator<Item = Found<'p>> {
        let tag = self.tag(hash);
        let places = self.buckets(hash, pin).flat_map(Bucket::entries);
        places.map(|place| Found { place, entry: place.load() }).filter(move |found| found.entry.has_tag(tag))
    }

    /// A free entry for the hash, in an overflow bucket more if there is none.
    fn free_place<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Option<Place<'p>> {
        loop {
            let mut last = None;
            for bucket in self.buckets(hash, pin) {
                if let Some(free) = bucket.entries().find(|place| place.load() == Entry::FREE) {
                    return Some(free);
                }
                last = Some(bucket);
            }
            let number = self.overflow.take()?;
            if !last?.set_overflow(number) {
                self.overflow.give_back(number);
            }
        }
    }
}
