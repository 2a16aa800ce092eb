//! All interleavings of scans and a write-out, within a number of preemptions, by loom (invariants 17 and 18 of
//! decision 8). The test stands in for the page on disk and the chain of its dirty records.

use ecotone_sys::primitive::{
    atomic::AtomicU64,
    loom::{model::Builder, thread},
};

use super::*;

fn page_id() -> PageId {
    PageId::of_tree(1, 7)
}

/// A cache and one page with one record, as numbers that only grow.
struct Fixture {
    cache: Arc<PageCache>,
    /// The content of the page on disk.
    page: AtomicU64,
    /// The record while it is dirty; 0 while it is clean.
    dirty: AtomicU64,
}

/// Explores the interleavings of `work` with at most so many preemptions. At the start the page holds 1, and is cached
/// if `is_cached`; the dirty record is 2.
fn all_orders(preemptions: usize, is_cached: bool, work: impl Fn(Arc<Fixture>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let fixture = Fixture {
            cache: PageCache::of_pages(Memory::new(16 * MIB)),
            page: AtomicU64::new(1),
            dirty: AtomicU64::new(2),
        };
        if is_cached {
            fixture.cache.admit(page_id(), &content(1), fixture.cache.ticket(page_id()));
            assert_eq!(copied(&fixture.cache, page_id()), Some(1));
        }
        work(Arc::new(fixture));
    });
}

impl Fixture {
    /// Writes the dirty record into its page, as the write-out does.
    fn write_out(&self) {
        self.page.store(self.dirty.load(Ordering::SeqCst), Ordering::SeqCst);
        self.cache.forget(page_id());
        self.dirty.store(0, Ordering::SeqCst);
    }

    /// Reads as a scan does: looks at the chain first, then takes the page from the cache, or reads and admits it.
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

    /// Checks that the cache has the page as it is on disk, or not at all.
    fn check(&self) {
        let stored = self.page.load(Ordering::SeqCst);
        assert!(copied(&self.cache, page_id()).is_none_or(|page| page == stored), "an old page stayed");
        assert_eq!(self.scan().max(self.scan()), stored.max(self.dirty.load(Ordering::SeqCst)));
    }
}

fn beside(fixture: &Arc<Fixture>, work: impl FnOnce(&Fixture) + Send + 'static) -> thread::JoinHandle<()> {
    let fixture = fixture.clone();
    thread::spawn(move || work(&fixture))
}

#[test]
fn invariant_17_a_scan_sees_a_record_in_the_chain_or_in_a_page_that_is_as_new() {
    for is_cached in [false, true] {
        all_orders(3, is_cached, |fixture| {
            let writer = beside(&fixture, Fixture::write_out);
            let reader = beside(&fixture, |fixture| assert_eq!(fixture.scan(), 2));
            assert_eq!(fixture.scan(), 2);
            [writer, reader].into_iter().for_each(|thread| thread.join().unwrap());
            fixture.check();
        });
    }
}

#[test]
fn invariant_18_trap_01_no_old_page_comes_in_behind_a_write() {
    all_orders(3, false, |fixture| {
        let writer = beside(&fixture, |fixture| {
            fixture.write_out();
            fixture.dirty.store(3, Ordering::SeqCst);
            fixture.write_out();
        });
        let reader = beside(&fixture, |fixture| assert!([2, 3].contains(&fixture.scan())));
        let first = fixture.scan();
        let second = fixture.scan();
        assert!(2 <= first && first <= second, "{second} after {first}");
        [writer, reader].into_iter().for_each(|thread| thread.join().unwrap());
        fixture.check();
    });
}

#[test]
fn a_page_whose_slab_is_given_back_is_read_again() {
    all_orders(3, true, |fixture| {
        let writer = beside(&fixture, Fixture::write_out);
        let shrinker = beside(&fixture, |fixture| while fixture.cache.shrink(MIB) > 0 {});
        assert_eq!(fixture.scan(), 2);
        [writer, shrinker].into_iter().for_each(|thread| thread.join().unwrap());
        fixture.check();
    });
}
