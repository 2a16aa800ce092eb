//! Frees the entries of chains that have left the log (hash-protocol.md, invariants 16 and 21).

use ecotone_sys::epoch::Pin;

use super::{
    Index,
    bucket::EntrySlot,
    entry::Entry,
    find::{Found, Refused},
    table::Table,
};
use crate::log::{Address, Link};

/// Buckets that are swept under one pin.
const BUCKETS_PER_PIN: usize = 64;

impl Index {
    /// Frees the entries of chains without a record in the log or in the read cache: entries without a link, and
    /// entries that name an address below `clearable`, which is not above CLEARABLE. Entries inserted or changed
    /// meanwhile are left to the next sweep.
    pub(crate) fn sweep(&self, clearable: Address) {
        let mut from = Some(0);
        while let Some(hash) = from {
            let pin = self.domain.pin();
            from = (0..BUCKETS_PER_PIN).try_fold(hash, |hash, _| self.sweep_bucket(hash, clearable, &pin));
        }
    }

    /// Frees an entry that was found without a record. Returns whether the entry had not changed.
    pub(crate) fn free(&self, found: Found<'_>) -> bool {
        let freed = found.place.exchange(found.entry, Entry::FREE).is_ok();
        if freed {
            self.load.went(found.entry);
        }
        freed
    }

    /// Sweeps the bucket of a hash, and returns the first hash of the next bucket. Tables only grow, so in every later
    /// table a bucket begins at that hash too.
    fn sweep_bucket(&self, hash: u64, clearable: Address, pin: &Pin<'_>) -> Option<u64> {
        let mut table = self.current(pin);
        while self.sweep_in(table, hash, clearable, pin).is_err() {
            table = self.after(table, hash, pin).expect("what is frozen goes on in another table");
        }
        table.behind(hash, 1)
    }

    fn sweep_in(&self, table: &Table, hash: u64, clearable: Address, pin: &Pin<'_>) -> Result<(), Refused> {
        let mut bucket = table.bucket(table.number(hash));
        loop {
            bucket.entries().for_each(|place| self.sweep_entry(place, clearable));
            let control = bucket.control();
            if control.is_frozen() {
                return Err(Refused);
            }
            let Some(overflow) = control.overflow() else { return Ok(()) };
            bucket = table.overflow.get(overflow, pin);
        }
    }

    fn sweep_entry(&self, place: EntrySlot<'_>, clearable: Address) {
        let entry = place.load();
        if entry != Entry::FREE && !entry.is_tentative() && !entry.is_frozen() && names_nothing(entry.link(), clearable)
        {
            self.free(Found { place, entry });
        }
    }
}

/// Whether a link names neither a read-cache entry nor a record from `clearable` on.
fn names_nothing(link: Link, clearable: Address) -> bool {
    !link.is_cached() && link.address_from(clearable).is_none()
}
