//! Merge operations: changes that need no closure, applied in place if possible (hash.md, "Operations").

use ecotone_engine::merge::Merge;
use ecotone_substrate::Result;
use ecotone_sys::words::WORD;

use super::{
    Hash,
    key::Key,
    log::HeaderKind,
    lookup::{Newest, SearchDepth},
};

impl Hash {
    /// Changes the value of a key: in place under the lock of its record if that is mutable, else like any update.
    ///
    /// # Errors
    /// If the value is not a counter, or gets too long. Then nothing is changed.
    pub(crate) fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        if self.merge_in_place(&self.key(key), merge)? {
            return Ok(());
        }
        merge.apply_by(key, |change| self.modify(key, change))
    }

    /// Merges in place if the newest record is mutable and has room. Returns whether it did.
    fn merge_in_place(&self, key: &Key<'_>, merge: Merge<'_>) -> Result<bool> {
        let pin = self.domain.pin();
        let start = self.start(key, &pin);
        let Newest::Here(address, record) = self.newest(key, start.hot, SearchDepth::whole(start.begin), &pin) else {
            return Ok(false);
        };
        if address < self.log.bounds().read_only() {
            return Ok(false);
        }
        // The buffers are allocated before the lock is taken.
        let room = record.capacity() * WORD;
        let (mut before, mut after) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut locked = record.lock();
        // A newer record may exist already.
        if locked.state().sealed() {
            return Ok(false);
        }
        locked.read(&mut before);
        let there = locked.state().kind() == HeaderKind::Value;
        merge.apply_to(key.bytes, there.then_some(&before[..]), &mut after)?;
        let fits = locked.has_room(after.len());
        if fits {
            locked.replace(Some(&after));
        }
        Ok(fits)
    }
}
