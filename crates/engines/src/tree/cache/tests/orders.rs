//! All orders of a few calls, within a number of preemptions, by loom. The test plays the pages.

use ecotone_sys::primitive::{
    atomic::{AtomicU64, Ordering},
    loom::{model::Builder, thread},
};

use super::*;

const KEY: &[u8] = b"key";

/// A cache and the one page that has the key, as a number that only rises.
struct World {
    cache: Arc<Cache>,
    page: AtomicU64,
}

/// Tries the orders of `work` with at most so many preemptions. It begins with the key in the page as version 1.
fn all_orders(preemptions: usize, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let (_, cache) = cache(16);
        work(Arc::new(World { cache, page: AtomicU64::new(1) }));
    });
}

fn value(version: u64) -> Vec<u8> {
    version.to_le_bytes().to_vec()
}

fn version(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

impl World {
    fn put(&self, version: u64) {
        let token = self.cache.reserve(space(0), KEY, 8).expect("there is room");
        apply(&self.cache, token, space(0), KEY, Some(&value(version)), version);
    }

    /// Reads through, as a get does.
    fn get(&self) -> u64 {
        match self.cache.get(0, KEY, Purpose::Read, version) {
            Found::Value(found) => found,
            Found::Tombstone => panic!("nothing is deleted"),
            Found::Missing(ticket) => {
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

    /// What a scan sees: the dirty record, or else the page, which is read later.
    fn scan(&self) -> u64 {
        let dirty = self.cache.peek_all(space(0), &all());
        let stored = self.page.load(Ordering::SeqCst);
        dirty.iter().next().map_or(stored, |record| version(record.value.unwrap()))
    }
}

#[test]
fn trap_01_a_late_read_is_not_admitted() {
    all_orders(3, |world| {
        let reader = thread::spawn({
            let world = world.clone();
            move || world.get()
        });
        world.put(2);
        world.write_out();
        world.cache.shrink(1);
        assert!([1, 2].contains(&reader.join().unwrap()));
        assert_eq!(world.get(), 2);
        check::check(&world.cache);
    });
}

#[test]
fn trap_02_a_scan_finds_a_record_in_the_cache_or_in_its_page() {
    all_orders(3, |world| {
        world.put(2);
        let writer = thread::spawn({
            let world = world.clone();
            move || {
                world.write_out();
                world.cache.shrink(1);
            }
        });
        assert_eq!(world.scan(), 2);
        writer.join().unwrap();
        assert_eq!(world.scan(), 2);
    });
}

#[test]
fn a_record_that_is_written_again_while_it_goes_out_stays_dirty() {
    all_orders(3, |world| {
        world.put(2);
        let writer = thread::spawn({
            let world = world.clone();
            move || world.write_out()
        });
        world.put(3);
        let seen = world.scan();
        writer.join().unwrap();
        assert_eq!(seen, 3);
        match world.cache.first_dirty(space(0)) {
            Some(_) => assert_eq!(world.cache.peek_all(space(0), &all()).len(), 1),
            None => assert_eq!(world.page.load(Ordering::SeqCst), 3),
        }
        world.write_out();
        assert_eq!((world.page.load(Ordering::SeqCst), world.cache.first_dirty(space(0))), (3, None));
        check::check(&world.cache);
    });
}
