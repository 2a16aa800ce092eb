//! Versions that two records of the hot log have, since compaction appended them again. The record that goes first is
//! a copy, and only the other one is reported as superseded (superseded.md, invariant 6). Kept with a listener only.

use std::collections::BTreeMap;

use ecotone_sys::primitive::Mutex;

use crate::log::Address;

/// Pairs of records with one version.
#[derive(Debug, Default)]
pub(crate) struct TailCopies(Mutex<Pairs>);

#[derive(Debug, Default)]
struct Pairs {
    /// Each record of a pair with the other one.
    others: BTreeMap<Address, Address>,
    /// BEGIN; `None` before the first compaction.
    begin: Option<Address>,
}

impl TailCopies {
    /// Notes a record that was appended again at `copy`. If the copy has changed already, it is the record itself. A
    /// record that compaction has taken out of the hot log meanwhile was a copy.
    pub(crate) fn note(&self, record: Address, copy: Address) {
        let mut pairs = self.0.lock();
        if pairs.begin.is_none_or(|begin| record >= begin) {
            pairs.others.extend([(record, copy), (copy, record)]);
        }
    }

    /// Whether two records are a pair.
    pub(crate) fn is_pair(&self, record: Address, other: Address) -> bool {
        self.0.lock().others.get(&record) == Some(&other)
    }

    /// A record goes. Returns whether its version stays in another one.
    pub(crate) fn remove(&self, address: Address) -> bool {
        let mut pairs = self.0.lock();
        let other = pairs.others.remove(&address);
        other.iter().for_each(|other| _ = pairs.others.remove(other));
        other.is_some()
    }

    /// The hot log begins at `begin` now. Forgets the pairs whose records have both left it.
    pub(crate) fn forget_below(&self, begin: Address) {
        let mut pairs = self.0.lock();
        pairs.begin = Some(begin);
        pairs.others.retain(|record, other| *record >= begin || *other >= begin);
    }
}
