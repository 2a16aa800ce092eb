//! All interleavings of a few calls, within a number of preemptions, by loom. The test stands in for the pages.

use ecotone_sys::primitive::{
    atomic::{AtomicU64, Ordering},
    loom::{model::Builder, thread},
};

use super::*;

const KEY: &[u8] = b"key";

/// A cache and one page with the key, as a number that only grows.
struct Fixture {
    cache: Arc<Cache>,
    page: AtomicU64,
}

/// Explores the interleavings of `work` with at most so many preemptions. At the start the page has version 1 of the
/// key.
fn all_orders(preemptions: usize, work: impl Fn(Arc<Fixture>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let (_, cache) = cache(16);
        work(Arc::new(Fixture { cache, page: AtomicU64::new(1) }));
    });
}

fn value(version: u64) -> Vec<u8> {
    version.to_le_bytes().to_vec()
}

fn version(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

impl Fixture {
    fn put(&self, version: u64) {
        let token = self.cache.reserve(space(0), KEY, 8).expect("there is room");
        apply(&self.cache, token, space(0), KEY, Some(&value(version)), version);
    }

    /// Reads through, as a get does.
    fn get(&self) -> u64 {
        match self.cache.get(0, KEY, Purpose::Read, version) {
            RecordLookup::Value(found) => found,
            RecordLookup::Tombstone => panic!("nothing is deleted"),
            RecordLookup::Missing(ticket) => {
                let stored = self.page.load(Ordering::SeqCst);
                self.cache.admit_clean(0, KEY, &value(stored), &ticket);
                stored
            }
        }
    }

    fn write_out(&self) {
        if let Some(record) = begin_write(&self.cache).iter().next() {
            self.page.store(version(record.value.unwrap()), Ordering::SeqCst);
            self.cache.end_write(space(0), &all(), true);
        }
    }

    /// Reads as a scan does: the dirty record, or else the page, which is read later.
    fn scan(&self) -> u64 {
        let dirty = self.cache.peek_all(space(0), &all());
        let stored = self.page.load(Ordering::SeqCst);
        dirty.iter().next().map_or(stored, |record| version(record.value.unwrap()))
    }
}

#[test]
fn trap_01_a_late_read_is_not_admitted() {
    all_orders(3, |fixture| {
        let reader = thread::spawn({
            let fixture = fixture.clone();
            move || fixture.get()
        });
        fixture.put(2);
        fixture.write_out();
        fixture.cache.shrink(1);
        assert!([1, 2].contains(&reader.join().unwrap()));
        assert_eq!(fixture.get(), 2);
        check::check(&fixture.cache);
    });
}

#[test]
fn trap_02_a_scan_finds_a_record_in_the_cache_or_in_its_page() {
    all_orders(3, |fixture| {
        fixture.put(2);
        let writer = thread::spawn({
            let fixture = fixture.clone();
            move || {
                fixture.write_out();
                fixture.cache.shrink(1);
            }
        });
        assert_eq!(fixture.scan(), 2);
        writer.join().unwrap();
        assert_eq!(fixture.scan(), 2);
    });
}

#[test]
fn a_record_that_is_written_again_while_it_goes_out_stays_dirty() {
    all_orders(3, |fixture| {
        fixture.put(2);
        let writer = thread::spawn({
            let fixture = fixture.clone();
            move || fixture.write_out()
        });
        fixture.put(3);
        let seen = fixture.scan();
        writer.join().unwrap();
        assert_eq!(seen, 3);
        match fixture.cache.first_dirty(space(0)) {
            Some(_) => assert_eq!(fixture.cache.peek_all(space(0), &all()).len(), 1),
            None => assert_eq!(fixture.page.load(Ordering::SeqCst), 3),
        }
        fixture.write_out();
        assert_eq!((fixture.page.load(Ordering::SeqCst), fixture.cache.first_dirty(space(0))), (3, None));
        check::check(&fixture.cache);
    });
}
