//! Changes that need no closure, made where the value lies (decision 9, "The contracts that change").

use ecotone_substrate::Result;
use ecotone_sys::words::WORD;

use super::{
    Hash,
    key::Key,
    log::Kind,
    lookup::{Newest, Reach},
};
use crate::merge::Merge;

impl Hash {
    /// Changes the value of a key: under the lock of its record if that may be changed in place, else as any update.
    ///
    /// # Errors
    /// If the value is no counter, or gets too long. Then nothing is changed.
    pub(crate) fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        if self.merge_in_place(&self.key(key), merge)? {
            return Ok(());
        }
        merge.apply_by(key, |change| self.modify(key, change))
    }

    /// Does it if the newest record is mutable and has room. Whether it did.
    fn merge_in_place(&self, key: &Key<'_>, merge: Merge<'_>) -> Result<bool> {
        let pin = self.domain.pin();
        let start = self.start(key, &pin);
        let Newest::Here(address, record) = self.newest(key, start.hot, Reach::whole(start.begin), &pin) else {
            return Ok(false);
        };
        if address < self.log.bounds().read_only() {
            return Ok(false);
        }
        // What fits is not allocated under the lock.
        let room = record.capacity() * WORD;
        let (mut before, mut after) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut locked = record.lock();
        // A newer one may be there already.
        if locked.state().sealed() {
            return Ok(false);
        }
        locked.read(&mut before);
        let there = locked.state().kind() == Kind::Value;
        merge.apply_to(key.bytes, there.then_some(&before[..]), &mut after)?;
        let fits = locked.has_room(after.len());
        if fits {
            locked.replace(Some(&after));
        }
        Ok(fits)
    }
}
