//! The chains of the index in the order of their keys' hashes, for walks over all records.

use ecotone_sys::epoch::Pin;

use super::{Index, entry::Entry, find::Refused, table::Table};
use crate::log::Link;

impl Index {
    /// Adds the first links of the chains in a hash's bucket, and returns the last hash of that bucket. Tables only
    /// grow, so in every later table a bucket begins right after that hash.
    pub(crate) fn links(&self, hash: u64, links: &mut Vec<Link>, pin: &Pin<'_>) -> u64 {
        let (mut table, before) = (self.current(pin), links.len());
        while links_in(table, hash, links, pin).is_err() {
            links.truncate(before);
            table = self.after(table, hash, pin).expect("what is frozen goes on in another table");
        }
        last_before(table.behind(hash, 1))
    }

    /// The last hash of `buckets` buckets from this hash's bucket on, or of all that there are.
    pub(crate) fn last_of(&self, hash: u64, buckets: u64, pin: &Pin<'_>) -> u64 {
        last_before(self.current(pin).behind(hash, buckets))
    }
}

fn last_before(behind: Option<u64>) -> u64 {
    behind.map_or(u64::MAX, |behind| behind - 1)
}

fn links_in(table: &Table, hash: u64, links: &mut Vec<Link>, pin: &Pin<'_>) -> Result<(), Refused> {
    for bucket in table.chain(table.number(hash), pin) {
        let entries = bucket.entries().map(|place| place.load());
        links.extend(entries.filter(|entry| *entry != Entry::FREE && !entry.is_tentative()).map(Entry::link));
        // Read after the entries: if the bucket is not frozen now, the entries were not frozen when they were read.
        if bucket.control().is_frozen() {
            return Err(Refused);
        }
    }
    Ok(())
}
