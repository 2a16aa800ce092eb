//! Keys that arrive in order, at the ends of all keys or among others: write-out makes full pages of them, once.

use ecotone_substrate::limits::PAGE;

use super::world::{Model, World};
use crate::{
    engine::{Engine, Operation},
    tree::TreeOptions,
};

/// Records that are there before.
const STORED: u64 = 20_000;
/// Records that come between two flushes.
const BATCH: u64 = 4_000;
const BATCHES: u64 = 6;
/// Bytes of a record.
const RECORD: u64 = 108;

/// Between each two numbers there is room for many others.
fn key(number: u64) -> [u8; 8] {
    (number << 20).to_be_bytes()
}

struct Arrivals {
    world: World,
    model: Model,
    seq: u64,
}

impl Arrivals {
    fn new() -> Arrivals {
        let world = World::new(1, TreeOptions::default());
        let records = (1..=STORED).map(|number| (key(number).to_vec(), Some(vec![1; 100])));
        world.absorb(&records.clone().collect()).unwrap();
        let model = records.filter_map(|(key, value)| Some((key, value?))).collect();
        Arrivals { world, model, seq: 1 }
    }

    fn put(&mut self, key: [u8; 8]) {
        self.seq += 1;
        let value = [self.seq as u8; 100];
        self.world.tree.replay(self.seq, Operation { key: &key, value: Some(&value) }).unwrap();
        self.model.insert(key.to_vec(), value.to_vec());
    }

    /// Pages written since the last call.
    fn written(&self) -> u64 {
        let written = |stats: Vec<(&'static str, u64)>| {
            stats
                .into_iter()
                .filter(|(name, _)| name.starts_with("pages_written_"))
                .map(|(_, pages)| pages)
                .sum::<u64>()
        };
        written(self.world.tree.stats())
    }

    fn pages(&self) -> u64 {
        self.world.tree.store.index.snapshot().ascend(&[]).map(|(_, segment)| segment.all_pages().count() as u64).sum()
    }
}

/// Brings records, a batch after the other, each written out. Bytes written for a byte that came, and pages there are
/// for the records that came.
fn bring(key_of: impl Fn(u64) -> [u8; 8]) -> (f64, f64) {
    let mut arrivals = Arrivals::new();
    let (written, pages) = (arrivals.written(), arrivals.pages());
    for batch in 0..BATCHES {
        (0..BATCH).for_each(|number| arrivals.put(key_of(batch * BATCH + number)));
        arrivals.world.tree.flush(u64::MAX).unwrap();
    }
    let came = (BATCHES * BATCH * RECORD) as f64;
    let bytes = |pages: u64| (pages * PAGE as u64) as f64;
    let amplified = (bytes(arrivals.written() - written) / came, bytes(arrivals.pages() - pages) / came);
    arrivals.world.expect(&arrivals.model);
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
    // Places share leaves of the dirty index, which so does not tell that they come in order: pages are filled to nine
    // tenths.
    assert!(written < 1.3 && space < 1.25, "{written:.2} {space:.2}");
}
