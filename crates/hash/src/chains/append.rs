//! Appends a record to a hash chain. The record becomes the newest of its index entry, and addresses fall along the
//! chain (hash-protocol.md, invariants 17 and 18).

use ecotone_sys::epoch::Pin;

use super::{Chains, Newest, SearchDepth};
use crate::{
    index::Found,
    key::Key,
    log::{Address, HotLog, Link, UnlinkedRecord},
    space::{NeedsSpace, Retryable},
};

/// The outcome of linking a raw record.
#[derive(Debug)]
pub(crate) enum Appended<'p> {
    /// The record is the head of the chain.
    Done(Address),
    /// The entry has changed. A caller that still wants to append first looks at the new records of the chain.
    Changed(UnlinkedRecord<'p>),
    /// A record with a higher address is already linked. The raw record was given up; the caller has to allocate
    /// another.
    Crossed,
}

impl Chains {
    /// Appends a record as the newest of a key. Before each attempt `settled` gets the newest record within `reach`,
    /// and returns true if no append is needed any more. Returns the address of the record, if one was appended.
    pub(crate) fn append_unless(
        &self,
        key: &Key<'_>,
        value: Option<&[u8]>,
        reach: SearchDepth,
        pin: &Pin<'_>,
        mut settled: impl FnMut(Newest<'_>) -> bool,
    ) -> Retryable<Option<Address>> {
        let mut raw = None;
        loop {
            let found = self.index.find_or_insert(key.hash, pin).ok_or(NeedsSpace::Bucket)?;
            let hot = self.read_cache.below(found.entry.link(), pin);
            if settled(self.newest(key, hot, reach, pin)) {
                return Ok(None);
            }
            let mine = raw.take().or_else(|| self.log.allocate(key.bytes, value, pin)).ok_or(NeedsSpace::Frame)?;
            match append(&self.log, found, hot, mine) {
                Appended::Done(address) => {
                    self.memory_share.tuner.missed_write(key.hash);
                    return Ok(Some(address));
                }
                Appended::Changed(again) => raw = Some(again),
                Appended::Crossed => {}
            }
        }
    }

    /// Makes a record the head of its chain, in which it has the highest address. Returns whether the entry could be
    /// changed.
    pub(crate) fn try_to_link(&self, hash: u64, address: Address, pin: &Pin<'_>) -> Retryable<bool> {
        let found = self.index.find_or_insert(hash, pin).ok_or(NeedsSpace::Bucket)?;
        Ok(found.place.exchange(found.entry, found.entry.with_link(Link::to(address))).is_ok())
    }
}

/// Links `raw` as the newest record of the chain that was found, whose hot records begin at `hot`. Read-cache entries
/// of the chain become unreachable. All arguments were read under the pin that is still held.
pub(crate) fn append<'p>(log: &HotLog, found: Found<'_>, hot: Link, raw: UnlinkedRecord<'p>) -> Appended<'p> {
    let before = hot.address_from(log.bounds().begin());
    if before.is_some_and(|before| before > raw.address()) {
        return Appended::Crossed;
    }
    raw.set_link(before.map_or(Link::NONE, Link::to));
    let address = raw.address();
    match found.place.exchange(found.entry, found.entry.with_link(Link::to(address))) {
        Ok(()) => {
            raw.made_known();
            Appended::Done(address)
        }
        Err(_) => Appended::Changed(raw),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ecotone_sys::epoch::Domain;

    use super::*;
    use crate::{
        index::{Index, tests::index},
        log::tests::{arena, log},
    };

    const HASH: u64 = 0;

    struct Fixture {
        domain: Arc<Domain>,
        log: HotLog,
        index: Index,
    }

    impl Fixture {
        fn new() -> Arc<Fixture> {
            let arena = arena();
            let (domain, log) = log(&arena, 2);
            let index = index(&domain, &arena, 0);
            Arc::new(Fixture { domain, log, index })
        }

        /// Appends without looking at the chain. Returns the number of allocations.
        fn append(&self, key: &[u8]) -> usize {
            let pin = self.domain.pin();
            let mut allocated = 0;
            let mut raw = None;
            loop {
                let found = self.index.find_or_insert(HASH, &pin).expect("there is room");
                let mine = raw.take().unwrap_or_else(|| {
                    allocated += 1;
                    self.log.allocate(key, Some(key), &pin).expect("there are frames")
                });
                match append(&self.log, found, found.entry.link(), mine) {
                    Appended::Done(_) => return allocated,
                    Appended::Changed(again) => raw = Some(again),
                    Appended::Crossed => {}
                }
            }
        }

        /// The values along the chain; their addresses fall.
        fn chain(&self) -> Vec<Vec<u8>> {
            let (pin, mut values) = (self.domain.pin(), Vec::new());
            let mut link = self.index.find(HASH, &pin).map_or(Link::NONE, |found| found.entry.link());
            let mut until = self.log.tail();
            while let Some(address) = link.address(self.log.bounds().begin(), until) {
                let (record, mut value) = (self.log.record(address, &pin).unwrap(), Vec::new());
                record.read(&mut value);
                assert!(record.has_key(&value));
                values.push(value);
                (link, until) = (record.link(), address);
            }
            assert_eq!(link, Link::NONE);
            values
        }
    }

    #[test]
    #[cfg(not(feature = "loom"))]
    fn the_newest_comes_first_and_a_record_that_is_too_low_is_given_up() {
        let fixture = Fixture::new();
        (1..4u8).for_each(|key| assert_eq!(fixture.append(&[key]), 1));
        {
            let pin = fixture.domain.pin();
            let low = fixture.log.allocate(&[9], Some(&[9]), &pin).unwrap();
            fixture.append(&[4]);
            let found = fixture.index.find(HASH, &pin).unwrap();
            assert!(matches!(append(&fixture.log, found, found.entry.link(), low), Appended::Crossed));
        }
        assert_eq!(fixture.chain(), [[4], [3], [2], [1]]);
        let end = fixture.log.close_page();
        fixture.log.raise_read_only(end);
        fixture.log.truncate(end, drop);
        fixture.append(&[5]);
        assert_eq!(fixture.chain(), [[5]], "what has left the log is in no chain");
    }

    #[test]
    #[cfg(not(feature = "loom"))]
    fn who_found_an_older_head_keeps_the_record() {
        let fixture = Fixture::new();
        let pin = fixture.domain.pin();
        let old = fixture.index.find_or_insert(HASH, &pin).unwrap();
        fixture.append(&[1]);
        let raw = fixture.log.allocate(&[2], Some(&[2]), &pin).unwrap();
        let Appended::Changed(raw) = append(&fixture.log, old, old.entry.link(), raw) else {
            panic!("the head is another")
        };
        let address = raw.address();
        let now = fixture.index.find(HASH, &pin).unwrap();
        assert!(matches!(append(&fixture.log, now, now.entry.link(), raw), Appended::Done(done) if done == address));
        assert_eq!(fixture.chain(), [[2], [1]]);
    }

    /// Two threads append to one entry, and their allocations may cross: both records are in the chain, none twice
    /// (M3). The test fails where a record may be linked above one with a higher address.
    #[test]
    #[cfg(feature = "loom")]
    fn in_all_orders_two_appends_make_one_falling_chain() {
        use ecotone_sys::primitive::loom::{model::Builder, thread};

        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 10_000;
        builder.check(|| {
            let fixture = Fixture::new();
            let other = thread::spawn({
                let fixture = fixture.clone();
                move || fixture.append(b"1")
            });
            fixture.append(b"2");
            other.join().unwrap();
            let mut chain = fixture.chain();
            chain.sort();
            assert_eq!(chain, [b"1", b"2"]);
        });
    }
}
