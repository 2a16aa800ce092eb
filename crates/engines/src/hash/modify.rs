//! Read-modify-write without latches: what was read is replaced if it is still the newest, else all begins again (H10; decision 10, "Operations").

use ecotone_substrate::Result;
use ecotone_sys::{epoch::Pin, words::WORD};

use super::{
    Hash,
    key::Key,
    log::{Address, State},
    lookup::{Newest, Place, Reach, Seen, Start},
    room::Attempt,
};

/// What a change makes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It stays as it is.
    Keep,
    /// It gets the new value.
    Store,
    /// It has no value.
    Delete,
}

/// Says what becomes of a key that has this value, or none. A new value goes to the buffer, which is empty before.
pub(crate) type Change<'c> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Outcome + 'c;

impl Hash {
    /// Changes a key by what it has. `change` gets the value, if there is one, and an empty buffer for a new one. It may be called several times; what
    /// its last call says is done, at a moment when the key had the value that it got.
    pub(crate) fn modify(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let (key, mut old, mut new) = (self.key(key), Vec::new(), Vec::new());
        loop {
            let seen = self.search(&key, &mut old)?;
            new.clear();
            let value = match change(seen.has_value().then_some(&old), &mut new) {
                Outcome::Store => Some(&new[..]),
                Outcome::Delete if seen.has_value() => None,
                Outcome::Delete | Outcome::Keep => return Ok(()),
            };
            let written = self.write_if(&key, &seen, value, &self.domain.pin());
            match written {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(lack) => self.make_room(lack)?,
            }
        }
    }

    /// Writes the key if what was seen is still the newest. Whether it is.
    fn write_if(&self, key: &Key<'_>, seen: &Seen, value: Option<&[u8]>, pin: &Pin<'_>) -> Attempt<bool> {
        match seen.place {
            Place::Memory(address, state) => self.replace_if(key, address, state, value, pin),
            Place::Disk(_) | Place::Nowhere => self.insert_if(key, &seen.start, value, pin),
        }
    }

    /// Writes the key if its newest record is still this one in this state.
    fn replace_if(&self, key: &Key<'_>, address: Address, state: State, value: Option<&[u8]>, pin: &Pin<'_>) -> Attempt<bool> {
        if !state.sealed() {
            let Some(mut locked) = self.log.record(address, pin).and_then(|record| record.lock_from(state)) else {
                return Ok(false);
            };
            // Nobody has appended a newer record, since that takes a seal from READ_ONLY on.
            if address >= self.log.bounds().read_only() && locked.has_room(value.map_or(0, <[u8]>::len)) {
                locked.replace(value);
                return Ok(true);
            }
            locked.seal();
        }
        let other = |newest: Newest<'_>| !matches!(newest, Newest::Here(at, _) if at == address);
        self.append_unless(key, value, Reach::whole(self.log.bounds().begin()), pin, other)
    }

    /// Writes the key if it has got no record since a search found none of it in memory (H7; decision 10, invariants 23 and 24).
    fn insert_if(&self, key: &Key<'_>, start: &Start, value: Option<&[u8]>, pin: &Pin<'_>) -> Attempt<bool> {
        // What was linked since is not below SAFE of then. It might have left the log again.
        if start.safe < self.log.bounds().begin() {
            return Ok(false);
        }
        let known = start.hot.head(start.begin);
        let floor = known.map_or(start.begin, |address| address.plus(WORD as u64));
        let reach = Reach { begin: start.begin, floor };
        self.append_unless(key, value, reach, pin, |newest| !matches!(newest, Newest::Nowhere))
    }
}
