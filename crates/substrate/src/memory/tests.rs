use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;

const MIB: usize = 1 << 20;

fn fill(memory: &Memory, component: Component, size: Size) -> Vec<Block> {
    std::iter::from_fn(|| memory.lease(component, size)).collect()
}

#[test]
fn caches_leave_the_reserve() {
    for (budget, reserve) in [(16 * MIB, MIB), (64 * MIB, 2 * MIB), (128 * MIB, 4 * MIB), (160 * MIB, 4 * MIB)] {
        for size in [Size::Frame, Size::Slab, Size::Chunk] {
            let memory = Memory::new(budget);
            let blocks = fill(&memory, Component::RecordCache, size);
            assert_eq!(blocks.len() * size.bytes(), budget - reserve, "{size:?} of {budget}");
            let essential: Vec<_> =
                std::iter::from_fn(|| memory.lease_essential(Component::Frames, size).ok()).collect();
            assert_eq!(essential.len() * size.bytes(), reserve, "{size:?} of {budget}");
            assert_eq!((memory.held(), memory.budget()), (budget, budget));
        }
    }
}

/// The second slab comes from the reserve, and no cache is asked for it.
#[test]
fn transfers_have_two_slabs_where_caches_have_the_rest() {
    let memory = Memory::new(16 * MIB);
    let free = memory.lease_in_turn(Component::Frames, 4).unwrap();
    assert_eq!(free.len(), 4);
    drop(free);
    let greedy = Greedy::new(&memory, &[Component::RecordCache]);
    let slabs = memory.lease_in_turn(Component::Frames, 4).unwrap();
    assert_eq!((slabs.len(), greedy.asked.load(SeqCst)), (2, 0));
    let _rest: Vec<_> = std::iter::from_fn(|| memory.arena.lease(Size::Slab, 0)).collect();
    let slabs = memory.lease_in_turn(Component::Frames, 4).unwrap();
    assert_eq!((slabs.len(), greedy.asked.load(SeqCst)), (1, 1));
}

#[test]
fn an_error_names_who_asked_and_the_budget() {
    let memory = Memory::new(16 * MIB + 5);
    let _blocks: Vec<_> =
        std::iter::from_fn(|| memory.lease_essential(Component::Memtable, Size::Chunk).ok()).collect();
    match memory.lease_essential(Component::Log, Size::Frame) {
        Err(Error::Memory { what, budget }) => assert_eq!((what, budget), ("log", 16 * MIB as u64 + 5)),
        other => panic!("{other:?}"),
    }
    assert_eq!(memory.held(), 16 * MIB);
}

#[test]
fn usage_is_told_by_component() {
    let memory = Memory::new(16 * MIB);
    let _held: Vec<_> = Component::ALL
        .iter()
        .enumerate()
        .map(|(n, c)| (0..=n).map(|_| memory.lease(*c, Size::Frame)).collect::<Vec<_>>())
        .collect();
    let usage = memory.usage();
    let expected: Vec<_> = Component::ALL.iter().enumerate().map(|(n, c)| (c.name(), (n + 1) * 4096)).collect();
    assert_eq!(usage, expected);
}

/// A cache that takes all slabs and gives back as many as are wanted. It counts how often it is asked.
struct Greedy {
    blocks: Arc<Mutex<Vec<Block>>>,
    asked: Arc<AtomicUsize>,
    component: Component,
    share: Share,
}

impl Greedy {
    fn new(memory: &Arc<Memory>, components: &'static [Component]) -> Self {
        let blocks = Arc::new(Mutex::new(fill(memory, components[0], Size::Slab)));
        let (cache, asked) = (Arc::downgrade(&blocks), Arc::new(AtomicUsize::new(0)));
        let count = asked.clone();
        let share = memory.join(
            CacheComponents::Components(components),
            Box::new(move |wanted| {
                count.fetch_add(1, SeqCst);
                let Some(cache) = cache.upgrade() else { return 0 };
                let mut cache = cache.lock();
                let keep = cache.len().saturating_sub(wanted.div_ceil(Size::Slab.bytes()));
                cache.drain(keep..).map(|block| block.len()).sum()
            }),
        );
        Greedy { blocks, asked, component: components[0], share }
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    fn slabs(&self) -> usize {
        self.blocks.lock().len()
    }

    /// Takes its due from the others, slab by slab.
    fn grow(&self, memory: &Memory) {
        while self.share.reclaim(Size::Slab.bytes()) {
            self.blocks.lock().push(memory.lease(self.component, Size::Slab).unwrap());
        }
    }
}

const RECORDS: &[Component] = &[Component::RecordCache];
const TABLES: &[Component] = &[Component::Memtable];

#[test]
fn shares_get_their_fair_part_from_those_above_theirs() {
    let memory = Memory::new(31 * MIB);
    let (first, second) = (Greedy::new(&memory, RECORDS), Greedy::new(&memory, TABLES));
    let slabs = |bytes: usize| bytes / Size::Slab.bytes();
    assert_eq!((first.slabs(), second.slabs()), (slabs(30 * MIB), 0), "free memory goes to whoever asks first");
    assert!(!first.share.reclaim(Size::Slab.bytes()), "who has more than his part gets nothing");
    second.grow(&memory);
    assert_eq!((first.slabs(), second.slabs()), (slabs(15 * MIB), slabs(15 * MIB)));
    let essential: Vec<_> = (0..4).map(|_| memory.lease_essential(Component::PageIndex, Size::Chunk)).collect();
    assert_eq!(first.share.fair_part(), (30 - 4) * MIB / 2, "essential memory comes first");
    drop((essential, second));
    assert_eq!(first.share.fair_part(), (30 - 4) * MIB, "what essential memory had to take from caches is left to it");
    (0..100).for_each(|_| first.share.count((memory.budget() / HORIZON) as u64 + 1));
    assert!(first.share.fair_part() > 30 * MIB - 4096, "but not for long, and who is alone may count on everything");
}

#[test]
fn shares_are_divided_by_the_requests_that_they_could_save() {
    let memory = Memory::new(31 * MIB);
    let (first, second) = (Greedy::new(&memory, RECORDS), Greedy::new(&memory, TABLES));
    let slabs = |share: &Share| share.fair_part() / Size::Slab.bytes();
    let parts = || (slabs(&first.share), slabs(&second.share));
    assert_eq!(parts(), (240, 240), "without demand they are equal");
    first.share.count(1);
    assert_eq!(parts(), (450, 30), "a sixteenth is left to whoever wants nothing");
    second.share.count(3);
    assert_eq!(parts(), (30 + 105, 30 + 315));
    second.grow(&memory);
    assert_eq!((first.slabs(), second.slabs()), (135, 345));
    assert!(!first.share.reclaim(Size::Slab.bytes()), "both have their parts");
}

#[test]
fn demand_is_forgotten_by_and_by() {
    let memory = Memory::new(31 * MIB);
    let (first, second) = (Greedy::new(&memory, RECORDS), Greedy::new(&memory, TABLES));
    let horizon = (memory.budget() / HORIZON) as u64;
    first.share.count(horizon);
    for _ in 0..8 * horizon {
        second.share.count(1);
    }
    second.grow(&memory);
    let left = first.slabs();
    assert!((30..40).contains(&left), "{left} slabs are left to whoever was busy long ago");
}

#[test]
fn shrinkers_are_asked_only_when_nothing_is_left_and_make_room() {
    let memory = Memory::new(16 * MIB);
    let cache = Greedy::new(&memory, RECORDS);
    let before = cache.slabs();
    let mut essential = Vec::new();
    for _ in 0..16 {
        essential.push(memory.lease_essential(Component::Frames, Size::Slab).unwrap());
    }
    assert_eq!((cache.asked(), cache.slabs()), (0, before), "the reserve comes first");
    for _ in 0..20 {
        essential.push(memory.lease_essential(Component::Frames, Size::Slab).unwrap());
    }
    assert_eq!((cache.asked(), cache.slabs()), (20, before - 20));
    assert_eq!(memory.held(), 16 * MIB);
    drop(cache);
    drop(memory.lease_essential(Component::Frames, Size::Slab).unwrap());
}

#[test]
fn each_shrinker_is_asked_once_until_one_has_made_room() {
    let memory = Memory::new(16 * MIB);
    let useless = Arc::new(AtomicUsize::new(0));
    let count = useless.clone();
    let shrink = move |wanted| {
        assert_eq!(wanted, Size::Frame.bytes());
        count.fetch_add(1, SeqCst);
        0
    };
    let _share = memory.join(CacheComponents::Components(TABLES), Box::new(shrink));
    let cache = Greedy::new(&memory, RECORDS);
    let _rest: Vec<_> = (0..256).map(|_| memory.lease_essential(Component::Frames, Size::Frame).unwrap()).collect();
    let _one_more = memory.lease_essential(Component::Frames, Size::Frame).unwrap();
    assert_eq!((useless.load(SeqCst), cache.asked()), (1, 1));
    cache.blocks.lock().clear();
    // The space that the cache left fills up. Then no cache can help, and each is asked once more.
    let full = || (useless.load(SeqCst) == 1).then(|| memory.lease_essential(Component::Other, Size::Frame).ok())?;
    let all: Vec<_> = std::iter::from_fn(full).collect();
    assert_eq!((useless.load(SeqCst), cache.asked()), (2, 2));
    drop(all);
}

#[test]
fn a_shrinker_may_lease_and_join() {
    let memory = Memory::new(16 * MIB);
    let _all: Vec<_> = std::iter::from_fn(|| memory.lease_essential(Component::Other, Size::Chunk).ok()).collect();
    let weak = Arc::downgrade(&memory);
    let shrink = move |_| {
        let memory = weak.upgrade().unwrap();
        drop(memory.join(CacheComponents::Components(RECORDS), Box::new(|_| 0)));
        assert!(memory.lease(Component::Other, Size::Frame).is_none());
        0
    };
    let _share = memory.join(CacheComponents::Components(TABLES), Box::new(shrink));
    assert!(memory.lease_essential(Component::Other, Size::Frame).is_err());
}

#[test]
#[cfg(all(debug_assertions, not(any(feature = "shuttle", feature = "loom"))))]
fn who_holds_a_pin_leases_nothing() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let (memory, domain) = (Memory::new(16 * MIB), ecotone_sys::epoch::Domain::new());
    let refused = |lease: &dyn Fn()| {
        let _pin = domain.pin();
        catch_unwind(AssertUnwindSafe(lease)).is_err()
    };
    assert!(refused(&|| drop(memory.lease(Component::Other, Size::Frame))));
    assert!(refused(&|| drop(memory.lease_essential(Component::Other, Size::Frame))));
    assert!(memory.lease(Component::Other, Size::Frame).is_some());
}

/// A thread that asks a cache may hold its last reference and drop it. The call would never end if members were asked
/// under their lock.
#[test]
fn a_cache_may_leave_while_it_is_asked() {
    let memory = Memory::new(16 * MIB);
    let leaving: Arc<Mutex<Option<Share>>> = Arc::default();
    let held = {
        let leaving = leaving.clone();
        CacheComponents::Counted(Box::new(move || {
            drop(leaving.lock().take());
            0
        }))
    };
    *leaving.lock() = Some(memory.join(held, Box::new(|_| 0)));
    let stays = memory.join(CacheComponents::Components(RECORDS), Box::new(|_| 0));
    let parts = (stays.fair_part(), stays.fair_part());
    assert_eq!(parts, (15 * MIB / 2, 15 * MIB));
}
