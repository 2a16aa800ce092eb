//! Tracks which sequences of the database's log are in pages that are not durable (hash-protocol.md, invariant 14).

use ecotone_substrate::Seq;

use super::{
    HotLog,
    address::{Address, PAGE},
};

impl HotLog {
    /// Notes the sequence of a record that was linked.
    pub(crate) fn note(&self, record: Address, seq: Seq) {
        // A frame that has left memory is durable.
        if let Some(frame) = self.frames.get(record, &self.domain.pin()) {
            frame.note(record, seq);
        }
    }

    /// The smallest sequence of a record that is not durable.
    pub(crate) fn first_unflushed(&self) -> Option<Seq> {
        self.unflushed().into_iter().map(|(_, first)| first).min()
    }

    /// The last page with a record that is not durable and has a sequence below this one.
    pub(crate) fn last_below(&self, below: Seq) -> Option<Address> {
        self.unflushed().into_iter().filter(|(_, first)| *first < below).map(|(page, _)| page).next_back()
    }

    /// The pages that are not durable, in order, each with the smallest sequence of its records.
    fn unflushed(&self) -> Vec<(Address, Seq)> {
        let (mut page, tail) = (self.bounds.durable(), self.tail());
        let mut pages = Vec::new();
        while page < tail {
            let pin = self.domain.pin();
            let first = self.frames.get(page, &pin).and_then(|frame| frame.first(page));
            pages.extend(first.map(|first| (page, first)));
            page = page.plus(PAGE);
        }
        pages
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;
    use crate::log::{
        Record,
        tests::{arena, log},
    };

    #[test]
    fn a_page_has_the_smallest_sequence_that_was_noted_until_it_is_durable() {
        let arena = arena();
        let (domain, log) = log(&arena, 2);
        assert_eq!((log.first_unflushed(), log.last_below(Seq::MAX)), (None, None));
        let append = || {
            let pin = domain.pin();
            let raw = log.allocate(b"key", Some(&[1; 1800]), &pin).expect("there are frames");
            raw.address()
        };
        let records: Vec<_> = (0..6).map(|_| append()).collect();
        assert!(records.chunks(2).all(|pair| pair[0].page() == pair[1].page()) && Record::bytes(226) > PAGE / 3);
        for (record, seq) in records.iter().zip([30, 20, 40, 50, 11, 10]) {
            log.note(*record, seq);
        }
        assert_eq!(log.first_unflushed(), Some(10));
        assert_eq!(log.last_below(10), None);
        assert_eq!(log.last_below(11), Some(records[4].page()));
        assert_eq!(log.last_below(Seq::MAX), Some(records[4].page()));
        log.note(records[0], 5);
        assert_eq!((log.first_unflushed(), log.last_below(10)), (Some(5), Some(records[0].page())));
        let end = log.close_page();
        log.raise_read_only(end);
        log.truncate(records[2].page(), drop);
        assert_eq!(log.first_unflushed(), Some(10), "what has left the log is in a run");
        log.truncate(end, drop);
        assert_eq!(log.first_unflushed(), None);
        log.note(append(), 60);
        log.note(records[5], 7);
        assert_eq!(log.first_unflushed(), Some(60));
    }
}
