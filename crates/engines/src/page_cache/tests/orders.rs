//! All orders of scans beside a write-out, within a number of preemptions, by loom (invariants 17 and 18 of decision
//! 8). The test plays the page on disk and the chain of its dirty records.

use ecotone_sys::primitive::{
    atomic::AtomicU64,
    loom::{model::Builder, thread},
};

use super::*;

fn page_id() -> PageId {
    PageId::of_tree(1, 7)
}

/// A cache and one page with one record, as numbers that only rise.
struct World {
    cache: Arc<PageCache>,
    /// What the page on disk holds.
    page: AtomicU64,
    /// The record while it is dirty; 0 while it is clean.
    dirty: AtomicU64,
}

/// Tries the orders of `work` with at most so many preemptions. It begins with 1 in the page, which is in the cache if
/// `is_cached`, and 2 dirty.
fn all_orders(preemptions: usize, is_cached: bool, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let world = World {
            cache: PageCache::of_pages(Memory::new(16 * MIB)),
            page: AtomicU64::new(1),
            dirty: AtomicU64::new(2),
        };
        if is_cached {
            world.cache.admit(page_id(), &content(1), world.cache.ticket(page_id()));
            assert_eq!(copied(&world.cache, page_id()), Some(1));
        }
        work(Arc::new(world));
    });
}

impl World {
    /// Writes the dirty record into its page, as write-out does.
    fn write_out(&self) {
        self.page.store(self.dirty.load(Ordering::SeqCst), Ordering::SeqCst);
        self.cache.forget(page_id());
        self.dirty.store(0, Ordering::SeqCst);
    }

    /// What a scan sees: the chain is looked at first, then the page is taken from the cache, or is read and comes in.
    fn scan(&self) -> u64 {
        let dirty = self.dirty.load(Ordering::SeqCst);
        let page = copied(&self.cache, page_id()).unwrap_or_else(|| {
            let ticket = self.cache.ticket(page_id());
            let stored = self.page.load(Ordering::SeqCst);
            self.cache.admit(page_id(), &content(stored), ticket);
            stored
        });
        dirty.max(page)
    }

    /// The cache has the page as it is on disk, or not at all.
    fn check(&self) {
        let stored = self.page.load(Ordering::SeqCst);
        assert!(copied(&self.cache, page_id()).is_none_or(|page| page == stored), "an old page stayed");
        assert_eq!(self.scan().max(self.scan()), stored.max(self.dirty.load(Ordering::SeqCst)));
    }
}

fn beside(world: &Arc<World>, work: impl FnOnce(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

#[test]
fn invariant_17_a_scan_sees_a_record_in_the_chain_or_in_a_page_that_is_as_new() {
    for is_cached in [false, true] {
        all_orders(3, is_cached, |world| {
            let writer = beside(&world, World::write_out);
            let reader = beside(&world, |world| assert_eq!(world.scan(), 2));
            assert_eq!(world.scan(), 2);
            [writer, reader].into_iter().for_each(|thread| thread.join().unwrap());
            world.check();
        });
    }
}

#[test]
fn invariant_18_trap_01_no_old_page_comes_in_behind_a_write() {
    all_orders(3, false, |world| {
        let writer = beside(&world, |world| {
            world.write_out();
            world.dirty.store(3, Ordering::SeqCst);
            world.write_out();
        });
        let reader = beside(&world, |world| assert!([2, 3].contains(&world.scan())));
        let first = world.scan();
        let second = world.scan();
        assert!(2 <= first && first <= second, "{second} after {first}");
        [writer, reader].into_iter().for_each(|thread| thread.join().unwrap());
        world.check();
    });
}

#[test]
fn a_page_whose_slab_is_given_back_is_read_again() {
    all_orders(3, true, |world| {
        let writer = beside(&world, World::write_out);
        let shrinker = beside(&world, |world| while world.cache.shrink(MIB) > 0 {});
        assert_eq!(world.scan(), 2);
        [writer, shrinker].into_iter().for_each(|thread| thread.join().unwrap());
        world.check();
    });
}
