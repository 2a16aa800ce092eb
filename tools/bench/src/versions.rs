//! The newest acknowledged version of records, in bounded memory.
//!
//! A table of fixed size, found by the key's identity. A record that is pushed out loses its lower bound, so that its reads are checked less,
//! never wrongly. Versions rise within a bucket, whatever it remembers.
//!
//! Writers are not held up by the table, and two writes of one record that overlap may be applied in either order. So only a write that
//! overlapped no other one of its record raises the bound.

use parking_lot::Mutex;

use crate::value::VERSION_BITS;

/// Buckets; with their entries 1 MiB, which stays in the processor's second cache.
const BUCKETS: usize = 1 << 13;
/// Records that a bucket remembers.
const WAYS: usize = 4;
/// Bits of a version below the number of the run.
const RUN_SHIFT: u32 = 32;
/// Runs whose versions fit above that.
const RUNS: u32 = 1 << (VERSION_BITS - RUN_SHIFT);

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    identity: u64,
    /// The last version that was begun, less the run's base like all versions here; 0 in an entry that was never used.
    newest: u32,
    acknowledged: u32,
    writers: u16,
}

#[derive(Debug, Default)]
struct Bucket {
    issued: u32,
    hand: u8,
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
    issue: u32,
    alone: bool,
    remembered: bool,
}

/// The version that the load of the run `run` writes. All versions of a later run are above all versions of an earlier one.
pub(crate) fn base_version(run: u32) -> u64 {
    assert!(run < RUNS, "the store has seen {run} runs, which is the most that versions can tell apart");
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
        let issue = bucket.issued;
        let version = self.base + u64::from(issue);
        let Some(entry) = bucket.entry_for_write(identity) else {
            return Ticket { identity, version, issue, alone: false, remembered: false };
        };
        let alone = entry.writers == 0;
        entry.writers += 1;
        entry.newest = issue;
        Ticket { identity, version, issue, alone, remembered: true }
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
        if ticket.alone && entry.newest == ticket.issue {
            entry.acknowledged = ticket.issue;
        }
    }

    /// No read of the record that begins now may give an older version; 0 if nothing is remembered.
    pub(crate) fn acknowledged(&self, identity: u64) -> u64 {
        let bucket = self.bucket(identity).lock();
        let known = bucket.entries.iter().find(|entry| entry.identity == identity && entry.acknowledged > 0);
        known.map_or(0, |entry| self.base + u64::from(entry.acknowledged))
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
                (0..WAYS).map(|step| (usize::from(self.hand) + step) % WAYS).find(|&place| self.entries[place].writers == 0)?;
            self.hand = ((place + 1) % WAYS) as u8;
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
