//! Read-modify-write without latches: what was read is replaced if it is still the newest, else all begins again (H10;
//! decision 10, "Operations").

use ecotone_substrate::{Result, bug};
use ecotone_sys::epoch::Pin;

use super::{
    Hash,
    key::Key,
    log::{Address, State},
    lookup::{Newest, Place, Reach, Seen},
    room::Attempt,
};
use crate::engine::{Change, Outcome};

impl Hash {
    /// Changes a key by what it has, wherever that is. `change` gets the value, if there is one, and an empty buffer
    /// for a new one. It may be called several times; what its last call says is done, at a moment when the key had the
    /// value that it got.
    pub(crate) fn modify(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let (key, mut old, mut new) = (self.key(key), Vec::new(), Vec::new());
        loop {
            let seen = self.search(&key, &mut old)?;
            if matches!(seen.place, Place::Disk(_) | Place::Cold) {
                self.split.missed_read(key.hash);
            }
            new.clear();
            let value = match change(seen.has_value().then_some(&old), &mut new) {
                Outcome::Store => Some(&new[..]),
                Outcome::Delete if seen.has_value() => None,
                Outcome::Delete | Outcome::Keep => return Ok(()),
            };
            let written = self.write_if(&key, &seen, value, &self.domain.pin());
            match written {
                Ok(true) => {
                    self.deletes.count(value.is_none());
                    return Ok(());
                }
                Ok(false) => {}
                Err(lack) => self.make_room(lack)?,
            }
        }
    }

    /// Writes the key if what was seen is still the newest. Whether it is.
    pub(super) fn write_if(&self, key: &Key<'_>, seen: &Seen, value: Option<&[u8]>, pin: &Pin<'_>) -> Attempt<bool> {
        match seen.place {
            Place::Memory(address, state) => self.replace_if(key, address, state, value, pin),
            Place::Copy | Place::Disk(_) | Place::Cold | Place::Nowhere => self.insert_if(key, &seen.start, value, pin),
        }
    }

    /// Writes the key if its newest record is still this one in this state.
    fn replace_if(
        &self,
        key: &Key<'_>,
        address: Address,
        state: State,
        value: Option<&[u8]>,
        pin: &Pin<'_>,
    ) -> Attempt<bool> {
        if !state.sealed() {
            let Some(mut locked) = self.log.record(address, pin).and_then(|record| record.lock_from(state)) else {
                return Ok(false);
            };
            // Nobody has appended a newer record, since that takes a seal from READ_ONLY on.
            if address >= self.log.bounds().read_only() && locked.has_room(value.map_or(0, <[u8]>::len)) {
                locked.replace(value);
                return Ok(true);
            }
            if !bug!(SkipSeal) {
                locked.seal();
            }
        }
        let other = |newest: Newest<'_>| !matches!(newest, Newest::Here(at, _) if at == address);
        self.append_unless(key, value, Reach::whole(self.log.bounds().begin()), pin, other)
            .map(|appended| appended.is_some())
    }
}
