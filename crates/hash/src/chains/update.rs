//! Writes to a chain: a record changes in place while it is mutable, else it is sealed and a new one is appended
//! (hash-protocol.md, "Operations").
//!
//! An *upsert* writes whatever the key has. A *conditional write* takes effect only if what a search has seen is still
//! the newest (H10). A *merge* adds to the value under the lock of its record.

use ecotone_engine::merge::Merge;
use ecotone_substrate::{Result, bug};
use ecotone_sys::{epoch::Pin, words::WORD};

use super::{Chains, FoundIn, Newest, SearchDepth, Seen};
use crate::{
    key::Key,
    log::{Address, HeaderKind, Locked, Record, RecordHeader},
    space::Retryable,
};

impl Chains {
    /// Writes a value or a tombstone for the key, whatever its current state. If memory is lacking, nothing has
    /// changed, except perhaps that a record is sealed. Returns the address of the new record, if one was appended.
    pub(crate) fn upsert(&self, key: &Key<'_>, value: Option<&[u8]>, pin: &Pin<'_>) -> Retryable<Option<Address>> {
        let reach = SearchDepth::whole(self.log.bounds().begin());
        let written = |newest: Newest<'_>| match newest {
            Newest::Here(address, record) => self.replace_or_seal(key, (address, record), value),
            Newest::OnDisk(_) | Newest::Nowhere => value.is_none() && bug!(ElideTombstone),
        };
        self.append_unless(key, value, reach, pin, written)
    }

    /// Replaces the value of the newest record of a key in place. If that is not possible, seals the record, so that no
    /// other thread can replace it either, and the key's next record is appended (hash-protocol.md, invariant 6).
    fn replace_or_seal(&self, key: &Key<'_>, (address, record): (Address, Record<'_>), value: Option<&[u8]>) -> bool {
        let mutable = address >= self.log.bounds().read_only();
        if !mutable && address < self.log.bounds().safe() {
            return false;
        }
        let mut old = self.buffer_for_old(record);
        let mut locked = record.lock();
        if locked.state().sealed() {
            return false;
        }
        let replaced = mutable && locked.has_room(value.map_or(0, <[u8]>::len));
        if replaced {
            self.report_replaced(key, address, &locked, value, &mut old);
            locked.replace(value);
        } else if !bug!(SkipSeal) {
            locked.seal();
        }
        replaced
    }

    /// Writes the key if the result of the search is still the newest. Returns whether it wrote.
    pub(crate) fn write_if(&self, key: &Key<'_>, seen: &Seen, value: Option<&[u8]>, pin: &Pin<'_>) -> Retryable<bool> {
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
            let Some(record) = self.log.record(address, pin) else { return Ok(false) };
            let mut old = self.buffer_for_old(record);
            let Some(mut locked) = record.lock_from(state) else { return Ok(false) };
            // No newer record has been appended, since below READ_ONLY an append seals the record first.
            if address >= self.log.bounds().read_only() && locked.has_room(value.map_or(0, <[u8]>::len)) {
                self.report_replaced(key, address, &locked, value, &mut old);
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

    /// Merges in place if the newest record is mutable and has room. Returns whether it did.
    pub(crate) fn merge_in_place(&self, key: &Key<'_>, merge: Merge<'_>) -> Result<bool> {
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
            self.report_replaced(key, address, &locked, Some(&after), &mut before);
            locked.replace(Some(&after));
        }
        Ok(fits)
    }

    /// A buffer for the value of a record, allocated before the record is locked; empty without a listener.
    #[inline]
    fn buffer_for_old(&self, record: Record<'_>) -> Vec<u8> {
        Vec::with_capacity(if self.reports.is_on() { record.capacity() * WORD } else { 0 })
    }

    /// Reports the value that a locked record is about to lose. An equal one stays.
    #[inline]
    fn report_replaced(
        &self,
        key: &Key<'_>,
        address: Address,
        locked: &Locked<'_>,
        value: Option<&[u8]>,
        old: &mut Vec<u8>,
    ) {
        if !self.reports.is_on() || locked.state().kind() != HeaderKind::Value {
            return;
        }
        locked.read(old);
        if value != Some(&old[..]) {
            self.report_unless_copied(address, key.bytes, old);
        }
    }
}
