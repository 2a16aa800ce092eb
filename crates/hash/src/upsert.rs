//! Blind writes: a key gets a value or a tombstone, in place or as a new record (hash-protocol.md, "Operations").

use ecotone_substrate::bug;
use ecotone_sys::epoch::Pin;

use super::{
    Hash,
    key::Key,
    log::{Address, Record},
    lookup::{Newest, SearchDepth},
    reservations::Retryable,
};

impl Hash {
    /// Writes a value or a tombstone for the key, whatever its current state. If memory is lacking, nothing has
    /// changed, except perhaps that a record is sealed. Returns the address of the new record, if one was appended.
    pub(super) fn upsert(&self, key: &Key<'_>, value: Option<&[u8]>, pin: &Pin<'_>) -> Retryable<Option<Address>> {
        let reach = SearchDepth::whole(self.log.bounds().begin());
        let written = |newest: Newest<'_>| match newest {
            Newest::Here(address, record) => self.replace_or_seal(address, record, value),
            Newest::OnDisk(_) | Newest::Nowhere => value.is_none() && bug!(ElideTombstone),
        };
        self.append_unless(key, value, reach, pin, written)
    }

    /// Replaces the value of the newest record of a key in place. If that is not possible, seals the record, so that no
    /// other thread can replace it either, and the key's next record is appended (hash-protocol.md, invariant 6).
    fn replace_or_seal(&self, address: Address, record: Record<'_>, value: Option<&[u8]>) -> bool {
        let mutable = address >= self.log.bounds().read_only();
        if !mutable && address < self.log.bounds().safe() {
            return false;
        }
        let mut locked = record.lock();
        if locked.state().sealed() {
            return false;
        }
        let replaced = mutable && locked.has_room(value.map_or(0, <[u8]>::len));
        if replaced {
            locked.replace(value);
        } else if !bug!(SkipSeal) {
            locked.seal();
        }
        replaced
    }
}
