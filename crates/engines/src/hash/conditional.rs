//! Conditional insert (H7): what a search found is written, or kept as a copy, if nothing was written meanwhile
//! (decision 10, invariants 23 to 25).

use ecotone_substrate::bug;
use ecotone_sys::{epoch::Pin, words::WORD};

use super::{
    Hash,
    key::Key,
    log::Address,
    lookup::{Newest, Reach, Start},
    room::{Attempt, Lack},
};

impl Start {
    /// The first hot record of the chain when the search began, if the log still has it. `None` if records that were
    /// linked since may have left the log.
    fn known(&self, begin: Address) -> Option<Option<Address>> {
        // What was linked since is not below SAFE of then.
        (self.safe >= begin).then(|| self.hot.head(self.begin).filter(|address| *address >= begin))
    }
}

impl Hash {
    /// Writes the key if it has got no record since a search that found none in memory. Whether it has not.
    pub(super) fn insert_if(&self, key: &Key<'_>, start: &Start, value: Option<&[u8]>, pin: &Pin<'_>) -> Attempt<bool> {
        let begin = self.log.bounds().begin();
        let Some(known) = start.known(begin) else { return Ok(false) };
        let floor = known.map_or(begin, |address| address.plus(WORD as u64));
        self.append_unless(key, value, Reach { begin, floor }, pin, |newest| !matches!(newest, Newest::Nowhere))
            .map(|appended| appended.is_some())
    }

    /// Offers the value that a search has read from a file to the read cache.
    pub(super) fn offer(&self, key: &Key<'_>, start: &Start, value: &[u8]) {
        if !self.copies.is_on() {
            return;
        }
        let copied = self.copy_if(key, start, value, &self.domain.pin());
        if self.copies.lacks_room() {
            self.make_room_for_copies();
            // Copies take entries of the index.
            self.room.has_taken();
        }
        if let Err(lack) = copied {
            // Without room there is one copy fewer.
            let _ = self.make_room(lack);
        }
    }

    /// Puts a copy on top of the key's chain, if no hot record has been linked there since the search, and no copy of
    /// this key.
    fn copy_if(&self, key: &Key<'_>, start: &Start, value: &[u8], pin: &Pin<'_>) -> Attempt<()> {
        let begin = self.log.bounds().begin();
        let Some(known) = start.known(begin) else { return Ok(()) };
        let found = self.table.find_or_insert(key.hash, pin).ok_or(Lack::Bucket)?;
        let met = self.copies.search(key.bytes, found.entry.link(), pin);
        if met.copy.is_none()
            && (met.hot.head(begin) == known || bug!(StaleAdmission))
            && let Some(copy) = self.copies.add(key, value, found.entry.link(), pin)
        {
            // If the entry has changed, the copy is named by nothing, and its room comes back with its frame.
            let _ = found.place.exchange(found.entry, found.entry.with_link(copy));
        }
        Ok(())
    }
}
