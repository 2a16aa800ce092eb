//! Finds an entry by hash in one table, or inserts it in two phases (hash-protocol.md, invariant 15).

use ecotone_sys::{
    epoch::Pin,
    primitive::{
        atomic::{Ordering, fence},
        thread,
    },
};

use super::{
    bucket::{Bucket, EntrySlot},
    entry::Entry,
    table::Table,
};
use crate::log::Link;

/// An entry as it was read, and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'p> {
    pub(crate) place: EntrySlot<'p>,
    pub(crate) entry: Entry,
}

/// The table cannot serve the call: the bucket is being split or has been, or the bucket is full and all overflow
/// buckets are in use. The next table can, if there is one.
#[derive(Debug)]
pub(super) struct Refused;

impl Table {
    /// The entry of a hash. A tentative one is not found.
    #[inline]
    pub(super) fn find<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Result<Option<Found<'p>>, Refused> {
        let (tag, mut bucket) = (self.tag(hash), self.bucket(self.number(hash)));
        loop {
            let mut entries = bucket.entries().map(|place| Found { place, entry: place.load() });
            if let Some(found) = entries.find(|found| found.entry.is_of(tag)) {
                return Ok(Some(found));
            }
            // Read after the entries: if the bucket is not frozen now, the entries were not frozen when they were read.
            let control = bucket.control();
            if control.is_frozen() {
                return Err(Refused);
            }
            let Some(overflow) = control.overflow() else { return Ok(None) };
            bucket = self.overflow.get(overflow, pin);
        }
    }

    /// The entry of a hash. If there is none, inserts one without an address.
    pub(super) fn find_or_insert<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Result<Found<'p>, Refused> {
        loop {
            if let Some(found) = self.find(hash, pin)? {
                return Ok(found);
            }
            match self.insert(hash, pin)? {
                Some(found) => return Ok(found),
                // Another thread inserts or has inserted the tag. This call cannot go on before that insert is settled.
                None => thread::yield_now(),
            }
        }
    }

    /// First phase: the tag is written to a free entry as tentative, so no search finds it. Second phase: checks that
    /// no other entry has the tag. `None` if another has, or if that cannot be known.
    fn insert<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Result<Option<Found<'p>>, Refused> {
        if self.with_tag(hash, pin) > 0 {
            return Ok(None);
        }
        let (tentative, entry) = (Entry::tentative(self.tag(hash)), Entry::new(self.tag(hash), Link::NONE));
        let place = self.free_place(hash, pin)?;
        if place.exchange(Entry::FREE, tentative).is_err() {
            return Ok(None);
        }
        // If two threads insert the tag, the one whose fence comes second sees the word of the other.
        fence(Ordering::SeqCst);
        let alone = self.with_tag(hash, pin) == 1;
        // The exchange fails if the bucket was frozen meanwhile. The entry was tentative then, and is not carried to
        // the next table.
        let settled = place.exchange(tentative, if alone { entry } else { Entry::FREE }).is_ok();
        if alone && settled {
            self.load.came(entry);
        }
        Ok((alone && settled).then_some(Found { place, entry }))
    }

    /// Number of entries with the hash's tag, tentative and frozen ones included.
    fn with_tag(&self, hash: u64, pin: &Pin<'_>) -> usize {
        let tag = self.tag(hash);
        let places = self.chain(self.number(hash), pin).flat_map(Bucket::entries);
        places.filter(|place| place.load().has_tag(tag)).count()
    }

    /// A free entry for the hash, in a new overflow bucket if there is none.
    fn free_place<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> Result<EntrySlot<'p>, Refused> {
        let mut bucket = self.bucket(self.number(hash));
        loop {
            if let Some(free) = bucket.entries().find(|place| place.load() == Entry::FREE) {
                return Ok(free);
            }
            let control = bucket.control();
            if control.is_frozen() {
                return Err(Refused);
            }
            bucket = match control.overflow() {
                Some(overflow) => self.overflow.get(overflow, pin),
                None => self.extend(bucket, pin)?,
            };
        }
    }

    /// Links a free overflow bucket. If another thread was first, returns the bucket itself, to be searched again.
    fn extend<'p>(&'p self, bucket: Bucket<'p>, pin: &'p Pin<'_>) -> Result<Bucket<'p>, Refused> {
        let number = self.overflow.take(pin).ok_or(Refused)?;
        if bucket.set_overflow(number) {
            return Ok(self.overflow.get(number, pin));
        }
        self.overflow.give_back(number, pin);
        Ok(bucket)
    }
}
