//! Read-modify-write without latches: the new value replaces the record that was read if that is still the newest, else
//! the operation starts again (H10; hash-protocol.md, "Operations").

use ecotone_engine::contract::{UpdateAction, UpdateFn};
use ecotone_substrate::{Result, bug};
use ecotone_sys::epoch::Pin;

use super::{
    Hash,
    key::Key,
    log::{Address, RecordHeader},
    lookup::{FoundIn, Newest, SearchDepth, Seen},
    reservations::Retryable,
};

impl Hash {
    /// Updates a key from its current value, in memory or on disk. `change` gets the value, if there is one, and an
    /// empty buffer for a new one. It may be called several times. The outcome of its last call is applied, at a moment
    /// when the key had the value that it got.
    pub(crate) fn modify(&self, key: &[u8], change: &mut UpdateFn<'_>) -> Result<()> {
        let (key, mut old, mut new) = (self.key(key), Vec::new(), Vec::new());
        loop {
            let seen = self.search(&key, &mut old)?;
            if matches!(seen.place, FoundIn::Disk(_) | FoundIn::Cold) {
                self.memory_tuner.missed_read(key.hash);
            }
            new.clear();
            let value = match change(seen.has_value().then_some(&old), &mut new) {
                UpdateAction::Store => Some(&new[..]),
                UpdateAction::Delete if seen.has_value() => None,
                UpdateAction::Delete | UpdateAction::Keep => return Ok(()),
            };
            let written = self.write_if(&key, &seen, value, &self.domain.pin());
            match written {
                Ok(true) => {
                    self.deletes.count(value.is_none());
                    return Ok(());
                }
                Ok(false) => {}
                Err(lack) => self.satisfy(lack)?,
            }
        }
    }

    /// Writes the key if the result of the search is still the newest. Returns whether it wrote.
    pub(super) fn write_if(&self, key: &Key<'_>, seen: &Seen, value: Option<&[u8]>, pin: &Pin<'_>) -> Retryable<bool> {
        match seen.place {
            FoundIn::Memory(address, state) => self.replace_if(key, address, state, value, pin),
            FoundIn::Copy | FoundIn::Disk(_) | FoundIn::Cold | FoundIn::Nowhere => {
                self.insert_if(key, &seen.start, value, pin)
            }
        }
    }

    /// Writes the key if its newest record is still the one at `address`, in this state.
    fn replace_if(
        &self,
        key: &Key<'_>,
        address: Address,
        state: RecordHeader,
        value: Option<&[u8]>,
        pin: &Pin<'_>,
    ) -> Retryable<bool> {
        if !state.sealed() {
            let Some(mut locked) = self.log.record(address, pin).and_then(|record| record.lock_from(state)) else {
                return Ok(false);
            };
            // No newer record has been appended, since below READ_ONLY an append seals the record first.
            if address >= self.log.bounds().read_only() && locked.has_room(value.map_or(0, <[u8]>::len)) {
                locked.replace(value);
                return Ok(true);
            }
            if !bug!(SkipSeal) {
                locked.seal();
            }
        }
        let other = |newest: Newest<'_>| !matches!(newest, Newest::Here(at, _) if at == address);
        self.append_unless(key, value, SearchDepth::whole(self.log.bounds().begin()), pin, other)
            .map(|appended| appended.is_some())
    }
}
