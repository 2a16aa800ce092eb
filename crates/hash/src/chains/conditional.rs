//! Conditional insert (H7): writes a key, or caches a value that was read, only if nothing was written since the search
//! (hash-protocol.md, invariants 23 to 25).

use ecotone_substrate::bug;
use ecotone_sys::{epoch::Pin, words::WORD};

use super::{Chains, Newest, SearchDepth, Start};
use crate::{
    key::Key,
    log::Address,
    space::{NeedsSpace, Retryable},
};

impl Start {
    /// The first hot record of the chain when the search began, if the log still has it. `None` if records that were
    /// linked since may have left the log.
    fn known(&self, begin: Address) -> Option<Option<Address>> {
        // Records linked since are not below that SAFE.
        (self.safe >= begin).then(|| self.hot.address_from(self.begin).filter(|address| *address >= begin))
    }
}

impl Chains {
    /// Writes the key if it has got no record since a search that found none in memory. Returns whether it wrote.
    pub(crate) fn insert_if(
        &self,
        key: &Key<'_>,
        start: &Start,
        value: Option<&[u8]>,
        pin: &Pin<'_>,
    ) -> Retryable<bool> {
        let begin = self.log.bounds().begin();
        let Some(known) = start.known(begin) else { return Ok(false) };
        let floor = known.map_or(begin, |address| address.plus(WORD as u64));
        self.append_unless(key, value, SearchDepth { begin, floor }, pin, |newest| !matches!(newest, Newest::Nowhere))
            .map(|appended| appended.is_some())
    }

    /// Adds a read-cache entry at the head of the key's chain, if since the search no hot record has been linked there,
    /// and no read-cache entry of this key.
    pub(crate) fn cache_if_unchanged(
        &self,
        key: &Key<'_>,
        start: &Start,
        value: &[u8],
        pin: &Pin<'_>,
    ) -> Retryable<()> {
        let begin = self.log.bounds().begin();
        let Some(known) = start.known(begin) else { return Ok(()) };
        let found = self.index.find_or_insert(key.hash, pin).ok_or(NeedsSpace::Bucket)?;
        let met = self.read_cache.search(key.bytes, found.entry.link(), pin);
        if met.copy.is_none()
            && (met.hot.address_from(begin) == known || bug!(StaleAdmission))
            && let Some(copy) = self.read_cache.add(key, value, found.entry.link(), pin)
        {
            // If the index entry has changed, no link names the cache entry, and its memory is freed with its frame.
            let _ = found.place.exchange(found.entry, found.entry.with_link(copy));
        }
        Ok(())
    }
}
