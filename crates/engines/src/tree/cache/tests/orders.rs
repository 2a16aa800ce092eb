//! All orders of a few calls, within a number of preemptions, by loom. The test plays the pages.

use ecotone_sys::primitive::{
    RwLock,
    atomic::{AtomicU64, Ordering},
    loom::{model::Builder, thread},
};

use super::*;

const KEY: &[u8] = b"key";
const PAGE: u32 = 1;

/// A cache and the one page that has the key, as a number that only rises.
struct World {
    cache: Arc<Cache>,
    page: AtomicU64,
    install: RwLock<()>,
}

/// Tries the orders of `work` with at most so many preemptions. It begins with the key in the page as version 1.
fn all_orders(preemptions: usize, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let (_, cache) = cache(16);
        work(Arc::new(World { cache, page: AtomicU64::new(1), install: RwLock::default() }));
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
        let token = self.cache.reserve(0, KEY, 8).expect("there is room");
        let _installing = self.install.read();
        self.cache.apply(token, 0, KEY, Some(&value(version)), version, &mut |_| PAGE);
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
        let records = self.cache.begin_write(0, PAGE, usize::MAX);
        if let Some(record) = records.first() {
            self.page.store(version(record.value.as_ref().unwrap()), Ordering::SeqCst);
            self.cache.end_write(0, PAGE, true);
        }
    }

    /// What a scan sees: the dirty record, or else the page, which is read later.
    fn scan(&self) -> u64 {
        let dirty = {
            let _installing = self.install.read();
            self.cache.peek_dirty(0, PAGE)
        };
        let stored = self.page.load(Ordering::SeqCst);
        dirty.first().map_or(stored, |record| version(record.value.as_ref().unwrap()))
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
        match world.cache.first_dirty(0) {
            Some(_) => assert_eq!(world.cache.peek_dirty(0, PAGE).len(), 1),
            None => assert_eq!(world.page.load(Ordering::SeqCst), 3),
        }
        world.write_out();
        assert_eq!((world.page.load(Ordering::SeqCst), world.cache.first_dirty(0)), (3, None));
        check::check(&world.cache);
    });
}

/// With two parts of the map of chains, the old and the new page may lie in either.
#[test]
fn the_first_dirty_record_is_seen_while_its_chain_moves() {
    for to in 2..6 {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 10_000;
        builder.check(move || {
            let (_, cache) = cache(256);
            assert_eq!(cache.common.chains.parts(), 2);
            let world = Arc::new(World { cache, page: AtomicU64::new(1), install: RwLock::default() });
            world.put(2);
            let mover = thread::spawn({
                let world = world.clone();
                move || {
                    let _installing = world.install.write();
                    world.cache.rehome(0, PAGE, &mut |_| to);
                }
            });
            assert_eq!(world.cache.first_dirty(0), Some(2));
            // It may be seen at both places, or at none: who flushes looks again until nothing is dirty.
            assert!(world.cache.dirty_pages(0, Seq::MAX).iter().all(|page| [PAGE, to].contains(page)));
            mover.join().unwrap();
            assert_eq!((world.cache.first_dirty(0), world.cache.dirty_pages(0, Seq::MAX)), (Some(2), vec![to]));
        });
    }
}
