//! Loom tests of memtables, record cache, lazy slots and reservations: all orders of a few calls, within a number of
//! preemptions (lsm-protocol.md, K3 and K5 to K7). In these tests a slab has 16 words, two nodes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_engine::{record_cache::RecordCache, superseded::SupersededReports};
use ecotone_substrate::{
    Seq,
    memory::{Component, Memory},
    table::Answer,
};
use ecotone_sys::{
    chunk::{Arena, CHUNK_BYTES, Size},
    epoch::Domain,
    primitive::{
        Mutex,
        atomic::AtomicBool,
        orders::{all_orders, spawn},
        thread,
    },
    words::Words,
};
use ecotone_tree::model_cache;

use crate::{
    cache::{eviction_clock::EvictionClock, lazy_slot::LazySlot},
    memtable::{
        Memtable,
        pool::MemtablePool,
        slab_reserve::{Reservation, SlabReserve},
    },
    version::super_version::{CurrentVersion, MemtableMiss},
};

/// The content of a version: each key's value and sequence.
type Map = BTreeMap<Vec<u8>, (Vec<u8>, Seq)>;

const HASH: u64 = 1;
const KEY: &[u8] = b"k";

/// The memtables of a keyspace. A map stands for its tables.
struct Fixture {
    memory: Arc<Arena>,
    current: CurrentVersion<Map>,
    /// The structure mutex.
    structure: Mutex<()>,
    stripe: Mutex<()>,
}

impl Fixture {
    fn new() -> Fixture {
        let current = CurrentVersion::new(&Domain::new(), Memtable::new(b""), Map::new());
        Fixture { memory: Arena::new(CHUNK_BYTES), current, structure: Mutex::new(()), stripe: Mutex::new(()) }
    }

    /// A write as in a commit. The value contains the sequence.
    fn write(&self, seq: Seq) {
        let _stripe = self.stripe.lock();
        let ready = &mut || Words::new(self.memory.lease(Size::Frame, 0).expect("the model needs little"));
        let pin = self.current.pin();
        self.current.load(&pin).active().apply(
            HASH,
            KEY,
            Some(&[seq as u8]),
            seq,
            ready,
            &SupersededReports::default(),
        );
    }

    fn read(&self) -> Option<Seq> {
        let pin = self.current.pin();
        let (super_version, mut value) = (self.current.load(&pin), Vec::new());
        let found =
            super_version.memtables.iter().find_map(|memtable_ref| memtable_ref.memtable.get(HASH, KEY, &mut value));
        let seq = match found {
            Some((answer, seq)) => {
                assert_eq!(answer, Answer::Value);
                seq
            }
            None => {
                let (kept, seq) = super_version.version.get(KEY)?;
                value.clone_from(kept);
                *seq
            }
        };
        assert_eq!(value, [seq as u8], "parts of two records");
        Some(seq)
    }

    fn rotate(&self) {
        let _structure = self.structure.lock();
        self.current.rotate(Memtable::new(b""), || ());
    }

    /// Flushes the oldest memtable into the version.
    fn flush(&self) {
        let oldest = self.current.oldest_immutable().expect("it was switched");
        let (mut cursor, mut key, mut value) = (oldest.memtable.cursor(), Vec::new(), Vec::new());
        let mut map = Map::clone(&self.current.get().version);
        while cursor.advance() {
            cursor.read_key(&mut key);
            let (_, seq) = cursor.read(&mut value);
            map.insert(key.clone(), (value.clone(), seq));
        }
        let _structure = self.structure.lock();
        self.current.install_flushed(&oldest, Arc::new(map));
    }
}

/// K3: a reader runs beside two writes of its key, with a rotation and a flush between them, and sees no value become
/// older. The test fails if a memtable becomes immutable at the rotation and not one grace period later: writes applied
/// to it during its flush are lost. It also fails if the memtable is removed before the version with its records is
/// published, and not together with that.
#[test]
fn nothing_is_lost_or_older_beside_a_switch_and_a_flush() {
    all_orders(2, Fixture::new, |fixture| {
        fixture.write(1);
        let writer = spawn(&fixture, |fixture| fixture.write(2));
        let reader = spawn(&fixture, |fixture| {
            let read = [fixture.read(), fixture.read()];
            assert!(read[0].is_some() && read[0] <= read[1], "{read:?}");
        });
        fixture.rotate();
        fixture.flush();
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(fixture.read(), Some(2));
        let super_version = fixture.current.get();
        assert!(super_version.version.contains_key(KEY) && super_version.memtables.len() == 1);
    });
}

/// The same keyspace with a record cache in front of the version.
struct Fronted {
    fixture: Fixture,
    record_cache: Arc<dyn RecordCache>,
}

impl Fronted {
    /// The key is in the version, with sequence 1, and not in the cache.
    fn new() -> Fronted {
        let fixture = Fixture::new();
        fixture.write(1);
        fixture.rotate();
        fixture.flush();
        Fronted { fixture, record_cache: model_cache() }
    }

    /// The key is also in the cache.
    fn read_before() -> Fronted {
        let fronted = Fronted::new();
        assert_eq!(fronted.read(), 1);
        fronted
    }

    fn read(&self) -> Seq {
        let mut value = Vec::new();
        match self.fixture.current.search((HASH, KEY), &mut value, Some(&*self.record_cache)) {
            Ok(found) => assert!(found, "nothing is deleted"),
            Err(MemtableMiss { version, ticket }) => {
                value.clone_from(&version.get(KEY).expect("it is never deleted").0);
                self.record_cache.admit(KEY, &value, ticket.expect("there is a cache"));
            }
        }
        Seq::from(value[0])
    }

    /// As in a flush: the cache is refreshed before the super version without the memtable is published.
    fn flush(&self) {
        let (oldest, mut value) = (self.fixture.current.oldest_immutable().expect("it was switched"), Vec::new());
        oldest.memtable.get(HASH, KEY, &mut value);
        self.record_cache.refresh(KEY, Some(&value));
        drop(oldest);
        self.fixture.flush();
    }

    /// Two reads beside a write, a rotation, a refresh, and the super version without the memtable.
    fn read_beside_a_flush(self: Arc<Fronted>) {
        let reader = spawn(&self, |fronted| {
            let read = [fronted.read(), fronted.read()];
            assert!(read[0] <= read[1], "{read:?}");
        });
        self.fixture.write(2);
        assert_eq!(self.read(), 2);
        self.fixture.rotate();
        self.flush();
        assert_eq!(self.read(), 2);
        reader.join().unwrap();
        assert_eq!(self.read(), 2);
    }
}

/// Q1. The test fails if the ticket is taken after the super version is loaded, if a cache hit is preferred to
/// memtables, if the cache is not refreshed, or if it is refreshed after the super version is published.
#[test]
fn the_record_cache_is_no_older_than_what_is_below_memtables() {
    all_orders(2, Fronted::new, |fronted| fronted.read_beside_a_flush());
}

/// Q1. The test fails if the cache is searched before the memtables.
#[test]
fn a_hit_in_the_record_cache_is_no_older_than_memtables_that_were_flushed() {
    all_orders(2, Fronted::read_before, |fronted| fronted.read_beside_a_flush());
}

/// A value that counts itself while it is alive.
struct RangeSize(Arc<AtomicUsize>);

impl RangeSize {
    fn new(alive: &Arc<AtomicUsize>) -> RangeSize {
        alive.fetch_add(1, Ordering::Relaxed);
        RangeSize(alive.clone())
    }
}

impl Drop for RangeSize {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A lazy slot of a table, and the eviction clock.
struct Shelf {
    domain: Arc<Domain>,
    part: Arc<LazySlot<RangeSize>>,
    clock: Mutex<EvictionClock>,
    alive: Arc<AtomicUsize>,
    loads: AtomicUsize,
    evictions: AtomicUsize,
}

impl Shelf {
    fn new() -> Shelf {
        let domain = Domain::new();
        let (part, clock) = (LazySlot::absent(&domain), Mutex::new(EvictionClock::default()));
        Shelf { domain, part, clock, alive: Arc::default(), loads: AtomicUsize::new(0), evictions: AtomicUsize::new(0) }
    }

    fn read(&self) {
        let load = || {
            self.loads.fetch_add(1, Ordering::Relaxed);
            Ok(RangeSize::new(&self.alive))
        };
        let enter = || self.clock.lock().enter(self.part.resident(), 1);
        let alive = self.part.look_or_load(&self.domain, |value| value.0.load(Ordering::Relaxed), load, enter);
        assert!(alive.is_ok_and(|alive| alive > 0), "it is looked at when it is gone");
    }

    fn evict(&self) {
        let Some(victim) = self.clock.lock().take() else { return };
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = gone.clone();
        victim.part.evict(Box::new(move || is_gone.store(true, Ordering::Release)));
        while !gone.load(Ordering::Acquire) {
            self.domain.drain();
            thread::yield_now();
        }
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }
}

/// K6: two readers of an absent slot run beside an eviction. The slot is loaded once, and once more for each eviction.
/// The test fails if a reader that has waited for a load does not look again before it loads the value itself.
#[test]
fn a_part_is_loaded_once_between_two_evictions() {
    all_orders(2, Shelf::new, |shelf| {
        let readers = [(), ()].map(|()| spawn(&shelf, Shelf::read));
        shelf.evict();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let (loads, evictions) = (shelf.loads.load(Ordering::Relaxed), shelf.evictions.load(Ordering::Relaxed));
        let alive = shelf.alive.load(Ordering::Relaxed);
        assert!(loads >= 1 && loads <= 1 + evictions && alive == loads - evictions, "{loads} {evictions} {alive}");
        let is_there = shelf.part.is_there(&shelf.domain.pin());
        assert_eq!((is_there, shelf.clock.lock().take().is_some()), (alive == 1, alive == 1));
    });
}

/// The slab reserve, and the memtables that use it.
struct Crowd {
    memory: Arc<Memory>,
    slabs: Arc<SlabReserve>,
    current: CurrentVersion<()>,
}

impl Crowd {
    fn new() -> Crowd {
        let memory = Memory::new(32 << 20);
        let (slabs, current) = (
            Arc::new(SlabReserve::new(&MemtablePool::new(&memory))),
            CurrentVersion::new(&Domain::new(), Memtable::new(b""), ()),
        );
        Crowd { memory, slabs, current }
    }

    fn free(&self) -> u64 {
        self.current.load(&self.current.pin()).writable_memtables().map(|memtable| memtable.free() as u64).sum()
    }

    fn admit(&self, key: &[u8]) -> Reservation {
        self.slabs
            .admit(Memtable::words(HASH, key, Some(b"1")), || Size::Slab, || self.free())
            .expect("there is memory")
    }

    fn write(&self, key: &[u8]) {
        let reservation = self.admit(key);
        {
            let pin = self.current.pin();
            self.current.load(&pin).active().apply(
                HASH,
                key,
                Some(b"1"),
                1,
                &mut || self.slabs.take(),
                &SupersededReports::default(),
            );
        }
        self.slabs.release(reservation);
    }

    fn rotate(&self) {
        let reservation = self.slabs.reserve_rotation(|| self.free()).expect("there is memory");
        let slabs = self.slabs.clone();
        self.current.rotate(Memtable::new(b""), move || slabs.release(reservation));
    }
}

/// K5: two writes and a cancelled reservation run beside a rotation. Every admitted writer finds a slab. The test fails
/// if a rotation reserves nothing: the free end of the slab that it leaves was counted for earlier admissions.
#[test]
fn whoever_is_admitted_finds_room_beside_a_switch() {
    all_orders(2, Crowd::new, |crowd| {
        crowd.write(b"0");
        let others = [b"a", b"b"].map(|key| spawn(&crowd, move |crowd| crowd.write(key)));
        crowd.slabs.release(crowd.admit(b"c"));
        crowd.rotate();
        crowd.write(b"d");
        others.into_iter().for_each(|other| other.join().unwrap());
        let (super_version, mut value) = (crowd.current.get(), Vec::new());
        for key in [b"0", b"a", b"b", b"d"] {
            assert!(
                super_version
                    .memtables
                    .iter()
                    .any(|memtable_ref| memtable_ref.memtable.get(HASH, key, &mut value).is_some())
            );
        }
    });
}

/// K7: two writes run while a trim gives ready slabs back. Every admitted writer finds a slab, and none is lost. The
/// test fails if admissions do not wait for the end of the trim: slabs that they counted disappear.
#[test]
fn whoever_is_admitted_finds_room_beside_a_trim() {
    all_orders(2, Crowd::new, |crowd| {
        // A slab is ready and not reserved.
        crowd.slabs.release(crowd.admit(b"c"));
        let other = spawn(&crowd, |crowd| crowd.write(b"a"));
        crowd.slabs.trim();
        crowd.write(b"b");
        other.join().unwrap();
        let (super_version, mut value) = (crowd.current.get(), Vec::new());
        assert!(
            [b"a", b"b"].iter().all(|key| super_version.memtables[0].memtable.get(HASH, *key, &mut value).is_some())
        );
        crowd.slabs.trim();
        assert_eq!(
            (crowd.slabs.bytes(), crowd.memory.used(&[Component::Memtable])),
            (0, super_version.memtables[0].memtable.bytes())
        );
    });
}
