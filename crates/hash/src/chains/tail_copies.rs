//! Versions that two records of the hot log have, since compaction appended them again. The record that goes first is
//! a copy, and only the other one is reported as superseded (superseded.md, invariant 6). Kept with a listener only.

use std::collections::BTreeMap;

use ecotone_sys::primitive::Mutex;

use crate::log::Address;

/// Pairs of records with one version.
#[derive(Debug, Default)]
pub(crate) struct TailCopies(Mutex<BTreeMap<Address, Address>>);

impl TailCopies {
    /// Notes a record that was appended again at `copy`. If the copy has changed already, it is the record itself.
    pub(crate) fn note(&self, record: Address, copy: Address) {
        self.0.lock().extend([(record, copy), (copy, record)]);
    }

    /// Whether another record has the version of this one.
    pub(crate) fn has(&self, address: Address) -> bool {
        self.0.lock().contains_key(&address)
    }

    /// A record goes. Returns whether its version stays in another one.
    pub(crate) fn remove(&self, address: Address) -> bool {
        let mut pairs = self.0.lock();
        let other = pairs.remove(&address);
        other.iter().for_each(|other| _ = pairs.remove(other));
        other.is_some()
    }

    /// Forgets the pairs whose records have both left the hot log.
    pub(crate) fn forget_below(&self, begin: Address) {
        self.0.lock().retain(|record, other| *record >= begin || *other >= begin);
    }
}
