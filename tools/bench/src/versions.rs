//! The newest acknowledged version of records, in bounded memory.
//!
//! A table of fixed size, found by the key's identity. A record that is pushed out loses its lower bound, so that its reads are checked less,
//! never wrongly. Versions rise within a bucket, whatever it remembers.
//!
//! Writers are not held up by the table, and two writes of one record that overlap may be applied in either order. So only a write that
//! overlapped no other one of its record raises the bound.

use parking_lot::Mutex;

/// Buckets; with their entries 5 MiB.
const BUCKETS: usize = 1 << 15;
/// Records that a bucket remembers.
const WAYS: usize = 4;
/// Bits of a version below the number of the run.
const RUN_SHIFT: u32 = 40;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    identity: u64,
    /// The last version that was begun.
    newest: u64,
    acknowledged: u64,
    writers: u32,
}

#[derive(Debug, Default)]
struct Bucket {
    issued: u64,
    hand: usize,
    entries: [Entry; WAYS],
}

/// The table; shared by all threads.
#[derive(Debug)]
pub(crate) struct Versions {
    base: u64,
    buckets: Box<[Mutex<Bucket>]>,
}

/// A write that was begun, for [`Versions::end`].
#[derive(Debug)]
#[must_use = "the write must be ended"]
pub(crate) struct Ticket {
    identity: u64,
    /// The version to write.
    pub(crate) version: u64,
    alone: bool,
    remembered: bool,
}

/// The version that the load of the run `run` writes. All versions of a later run are above all versions of an earlier one.
pub(crate) fn base_version(run: u32) -> u64 {
    u64::from(run) << RUN_SHIFT
}

impl Versions {
    /// An empty table for the run `run`.
    pub(crate) fn new(run: u32) -> Self {
        Versions { base: base_version(run), buckets: (0..BUCKETS).map(|_| Mutex::default()).collect() }
    }

    /// Issues a version for a write of the record with this identity.
    pub(crate) fn begin(&self, identity: u64) -> Ticket {
        let mut bucket = self.bucket(identity).lock();
        bucket.issued += 1;
        let version = self.base + bucket.issued;
        let Some(entry) = bucket.entry_for_write(identity) else {
            return Ticket { identity, version, alone: false, remembered: false };
        };
        let alone = entry.writers == 0;
        entry.writers += 1;
        entry.newest = version;
        Ticket { identity, version, alone, remembered: true }
    }

    /// The write was acknowledged.
    pub(crate) fn end(&self, ticket: Ticket) {
        if !ticket.remembered {
            return;
        }
        let mut bucket = self.bucket(ticket.identity).lock();
        let entry = bucket.entries.iter_mut().find(|entry| entry.writers > 0 && entry.identity == ticket.identity);
        let entry = entry.expect("an entry stays while it has writers");
        entry.writers -= 1;
        if ticket.alone && entry.newest == ticket.version {
            entry.acknowledged = ticket.version;
        }
    }

    /// No read of the record that begins now may give an older version; 0 if nothing is remembered.
    pub(crate) fn acknowledged(&self, identity: u64) -> u64 {
        let bucket = self.bucket(identity).lock();
        bucket.entries.iter().find(|entry| entry.identity == identity).map_or(0, |entry| entry.acknowledged)
    }

    fn bucket(&self, identity: u64) -> &Mutex<Bucket> {
        // The identity is mixed already.
        &self.buckets[(identity % BUCKETS as u64) as usize]
    }
}

impl Bucket {
    /// The record's entry, or one that it takes over; none if all have writers.
    fn entry_for_write(&mut self, identity: u64) -> Option<&mut Entry> {
        let known = self.entries.iter().position(|entry| entry.identity == identity && entry.newest > 0);
        let place = known.or_else(|| {
            let place =
                (self.hand..self.hand + WAYS).map(|place| place % WAYS).find(|&place| self.entries[place].writers == 0)?;
            self.hand = (place + 1) % WAYS;
            self.entries[place] = Entry { identity, ..Entry::default() };
            Some(place)
        })?;
        self.entries.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_write_raises_the_bound_and_overlapping_ones_do_not() {
        let versions = Versions::new(3);
        let first = versions.begin(9);
        let written = first.version;
        assert_eq!((versions.acknowledged(9), written), (0, base_version(3) + 1));
        versions.end(first);
        assert_eq!(versions.acknowledged(9), written);
        let (second, third) = (versions.begin(9), versions.begin(9));
        versions.end(third);
        versions.end(second);
        assert_eq!(versions.acknowledged(9), written);
        let fourth = versions.begin(9);
        let newest = fourth.version;
        versions.end(fourth);
        assert_eq!(versions.acknowledged(9), newest);
    }

    #[test]
    fn forgotten_records_lose_their_bound_and_versions_still_rise() {
        let versions = Versions::new(0);
        let same_bucket = |n: u64| n * BUCKETS as u64 + 1;
        let mut last = 0;
        for round in 0..3 {
            for n in 0..10 {
                let ticket = versions.begin(same_bucket(n));
                assert!(ticket.version > last, "round {round}");
                last = ticket.version;
                versions.end(ticket);
            }
        }
        let remembered = (0..10).filter(|&n| versions.acknowledged(same_bucket(n)) > 0).count();
        assert_eq!(remembered, WAYS);
    }

    #[test]
    fn a_bucket_full_of_writers_forgets_nobody() {
        let versions = Versions::new(0);
        let tickets: Vec<_> = (0..=WAYS as u64).map(|n| versions.begin(n * BUCKETS as u64)).collect();
        tickets.into_iter().for_each(|ticket| versions.end(ticket));
        assert_eq!(versions.acknowledged(WAYS as u64 * BUCKETS as u64), 0);
        assert!(versions.acknowledged(0) > 0);
    }
}
