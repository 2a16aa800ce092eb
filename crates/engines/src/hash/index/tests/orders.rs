//! All orders of inserts into a bucket, within a number of preemptions, by loom (decision 10, M2). A bucket has two entries.

use ecotone_sys::primitive::loom::{model::Builder, thread};

use super::*;
use crate::hash::log::{Address, Link, PAGE, PAGE_HEADER, tests::arena};

struct World {
    domain: Arc<Domain>,
    index: Index,
}

/// Tries the orders of `work` with at most so many preemptions. It begins with an empty table of one bucket.
fn all_orders(preemptions: usize, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let arena = arena();
    builder.check(move || {
        let domain = Domain::new();
        let index = index(&domain, &arena, 0);
        work(Arc::new(World { domain, index }));
    });
}

fn spawn<T: 'static>(world: &Arc<World>, work: impl FnOnce(&World) -> T + 'static) -> thread::JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

fn hash(tag: u64) -> u64 {
    tag << (64 - entry::TAG_BITS)
}

fn address(number: u64) -> Address {
    Address::new(PAGE + PAGE_HEADER + 8 * number)
}

impl World {
    /// Inserts the tag, and makes its entry the head of a chain.
    fn insert(&self, tag: u64, number: u64) {
        let pin = self.domain.pin();
        loop {
            let found = self.index.find_or_insert(hash(tag), &pin).expect("there is room");
            if found.place.exchange(found.entry, found.entry.with_link(Link::to(address(number)))).is_ok() {
                return;
            }
            thread::yield_now();
        }
    }

    fn sweep(&self, clearable: Address) {
        self.index.sweep(clearable);
    }

    fn found(&self, tag: u64) -> Option<Link> {
        let pin = self.domain.pin();
        self.index.find(hash(tag), &pin).map(|found| found.entry.link())
    }

    /// Tags of all entries, sorted.
    fn tags(&self) -> Vec<u64> {
        let pin = self.domain.pin();
        let entries = self.index.current(&pin).chain(0, &pin).flat_map(|bucket| bucket.entries()).map(|place| place.load());
        let mut tags: Vec<u64> = entries.filter(|entry| *entry != entry::Entry::FREE).map(|entry| entry.tag()).collect();
        tags.sort_unstable();
        tags
    }
}

/// One of them takes an entry for another tag first, which the other may have wanted.
#[test]
fn two_who_insert_one_tag_insert_one_entry() {
    all_orders(3, |world| {
        let other = spawn(&world, |world| world.insert(0, 1));
        world.insert(1, 3);
        world.insert(0, 2);
        other.join().unwrap();
        assert_eq!(world.tags(), [0, 1]);
        assert!((1..3).any(|number| world.found(0) == Some(Link::to(address(number)))));
        assert_eq!(world.found(1), Some(Link::to(address(3))));
    });
}

#[test]
fn tags_that_do_not_fit_go_on_in_one_more_bucket() {
    all_orders(3, |world| {
        world.insert(0, 0);
        world.insert(1, 1);
        let other = spawn(&world, |world| world.insert(2, 2));
        world.insert(3, 3);
        other.join().unwrap();
        assert_eq!(world.tags(), [0, 1, 2, 3]);
        (0..4).for_each(|tag| assert_eq!(world.found(tag), Some(Link::to(address(tag)))));
    });
}

/// A sweep frees what lies below CLEARABLE, and what is being inserted: then that is inserted again.
#[test]
fn a_sweep_frees_nothing_that_is_in_the_log() {
    all_orders(2, |world| {
        world.insert(0, 0);
        world.insert(1, 1);
        let sweeper = spawn(&world, |world| world.sweep(address(1)));
        let other = spawn(&world, |world| world.insert(2, 2));
        world.insert(2, 3);
        other.join().unwrap();
        sweeper.join().unwrap();
        world.sweep(address(1));
        assert_eq!((world.found(0), world.found(1)), (None, Some(Link::to(address(1)))));
        assert_eq!(world.tags(), [1, 2]);
    });
}
