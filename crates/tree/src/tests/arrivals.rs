//! Keys that arrive in order, at the ends of the key space or inside it: write-out fills pages with them, once.

use ecotone_engine::contract::{Engine, Operation, Recover};
use ecotone_substrate::limits::PAGE;

use super::fixture::{Fixture, Model};
use crate::TreeOptions;

/// Records stored before.
const STORED: u64 = 20_000;
/// Records between two flushes.
const BATCH: u64 = 4_000;
const BATCHES: u64 = 6;
/// Bytes of a record.
const RECORD: u64 = 108;

/// Leaves space for many keys between two numbers.
fn key(number: u64) -> [u8; 8] {
    (number << 20).to_be_bytes()
}

struct Arrivals {
    fixture: Fixture,
    model: Model,
    seq: u64,
}

impl Arrivals {
    fn new() -> Arrivals {
        let fixture = Fixture::new(1, TreeOptions::default());
        let records = (1..=STORED).map(|number| (key(number).to_vec(), Some(vec![1; 100])));
        fixture.ingest(&records.clone().collect()).unwrap();
        let model = records.filter_map(|(key, value)| Some((key, value?))).collect();
        Arrivals { fixture, model, seq: 1 }
    }

    fn put(&mut self, key: [u8; 8]) {
        self.seq += 1;
        let value = [self.seq as u8; 100];
        self.fixture.tree.replay(self.seq, Operation { key: &key, value: Some(&value) }).unwrap();
        self.model.insert(key.to_vec(), value.to_vec());
    }

    /// Pages written so far.
    fn written(&self) -> u64 {
        let written = |stats: Vec<(&'static str, u64)>| {
            stats
                .into_iter()
                .filter(|(name, _)| name.starts_with("pages_written_"))
                .map(|(_, pages)| pages)
                .sum::<u64>()
        };
        written(self.fixture.tree.stats())
    }

    fn pages(&self) -> u64 {
        self.fixture
            .tree
            .store
            .index
            .snapshot()
            .ascend(&[])
            .map(|(_, segment)| segment.all_pages().count() as u64)
            .sum()
    }
}

/// Inserts records in batches, flushing each. Returns the bytes written and the bytes of new pages, each for a byte
/// inserted.
fn bring(key_of: impl Fn(u64) -> [u8; 8]) -> (f64, f64) {
    let mut arrivals = Arrivals::new();
    let (written, pages) = (arrivals.written(), arrivals.pages());
    for batch in 0..BATCHES {
        (0..BATCH).for_each(|number| arrivals.put(key_of(batch * BATCH + number)));
        arrivals.fixture.tree.flush(u64::MAX).unwrap();
    }
    let came = (BATCHES * BATCH * RECORD) as f64;
    let bytes = |pages: u64| (pages * PAGE as u64) as f64;
    let amplified = (bytes(arrivals.written() - written) / came, bytes(arrivals.pages() - pages) / came);
    arrivals.fixture.expect(&arrivals.model);
    amplified
}

#[test]
fn ascending_keys_are_written_once_into_full_pages() {
    let (written, space) = bring(|number| key(STORED + 1 + number));
    assert!(written < 1.15 && space < 1.1, "{written:.2} {space:.2}");
}

#[test]
fn descending_keys_are_written_once_into_full_pages() {
    let (written, space) = bring(|number| (BATCHES * BATCH - number).to_be_bytes());
    assert!(written < 1.2 && space < 1.15, "{written:.2} {space:.2}");
}

#[test]
fn keys_that_arrive_at_a_few_places_leave_the_pages_around_them_alone() {
    let (written, space) = bring(|number| {
        let place = key(STORED / 8 * (number % 4 + 1) + 7);
        (u64::from_be_bytes(place) + 1 + number / 4).to_be_bytes()
    });
    // The places share leaves of the dirty index, so their order is not detected: pages are filled to nine tenths.
    assert!(written < 1.3 && space < 1.25, "{written:.2} {space:.2}");
}
