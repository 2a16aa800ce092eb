//! All orders of a few calls, within a number of preemptions, by loom (decision 12, K3 and K5 to K7). A slab has 16
//! words, two nodes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{
    Seq,
    memory::{Component, Memory},
    table::Answer,
};
use ecotone_sys::{
    chunk::{Arena, CHUNK_BYTES, Size},
    epoch::Domain,
    primitive::{Mutex, atomic::AtomicBool, thread},
    words::Words,
};

use crate::{
    front::Front,
    lsm::{
        clock::Clock,
        memtable::Memtable,
        part::Part,
        pool::Pool,
        room::{Credit, Room},
        view::{Beyond, Present},
    },
    tests::orders::{all_orders, spawn},
    tree::{cache::Cache, front::part},
};

/// What a version has: each key's value and sequence.
type Map = BTreeMap<Vec<u8>, (Vec<u8>, Seq)>;

const HASH: u64 = 1;
const KEY: &[u8] = b"k";

/// The memtables of a keyspace, whose tables are a map.
struct World {
    memory: Arc<Arena>,
    present: Present<Map>,
    /// The structure mutex.
    structure: Mutex<()>,
    stripe: Mutex<()>,
}

impl World {
    fn new() -> World {
        let present = Present::new(&Domain::new(), Memtable::new(b""), Map::new());
        World { memory: Arena::new(CHUNK_BYTES), present, structure: Mutex::new(()), stripe: Mutex::new(()) }
    }

    /// A write as a commit makes it. The value tells the sequence.
    fn write(&self, seq: Seq) {
        let _stripe = self.stripe.lock();
        let ready = &mut || Words::new(self.memory.lease(Size::Frame, 0).expect("the model needs little"));
        let pin = self.present.pin();
        self.present.load(&pin).active().apply(HASH, KEY, Some(&[seq as u8]), seq, ready);
    }

    fn read(&self) -> Option<Seq> {
        let pin = self.present.pin();
        let (view, mut value) = (self.present.load(&pin), Vec::new());
        let found = view.memtables.iter().find_map(|member| member.memtable.get(HASH, KEY, &mut value));
        let seq = match found {
            Some((answer, seq)) => {
                assert_eq!(answer, Answer::Value);
                seq
            }
            None => {
                let (kept, seq) = view.version.get(KEY)?;
                value.clone_from(kept);
                *seq
            }
        };
        assert_eq!(value, [seq as u8], "parts of two records");
        Some(seq)
    }

    fn switch(&self) {
        let _structure = self.structure.lock();
        self.present.switch(Memtable::new(b""), || ());
    }

    /// Brings the oldest memtable into the version.
    fn flush(&self) {
        let oldest = self.present.oldest_sealed().expect("it was switched");
        let (mut cursor, mut key, mut value) = (oldest.memtable.cursor(), Vec::new(), Vec::new());
        let mut map = Map::clone(&self.present.get().version);
        while cursor.advance() {
            cursor.read_key(&mut key);
            let (_, seq) = cursor.read(&mut value);
            map.insert(key.clone(), (value.clone(), seq));
        }
        let _structure = self.structure.lock();
        self.present.flushed(&oldest, Arc::new(map));
    }
}

/// K3: a reader beside two writes of its key, of which a switch and a flush come in between, sees nothing become older.
/// It fails if a memtable is sealed at the switch and not a grace later: what is applied to it while it is flushed is
/// lost. It fails if the memtable goes before the version that has it is published, and not with it.
#[test]
fn nothing_is_lost_or_older_beside_a_switch_and_a_flush() {
    all_orders(2, World::new, |world| {
        world.write(1);
        let writer = spawn(&world, |world| world.write(2));
        let reader = spawn(&world, |world| {
            let read = [world.read(), world.read()];
            assert!(read[0].is_some() && read[0] <= read[1], "{read:?}");
        });
        world.switch();
        world.flush();
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(world.read(), Some(2));
        let view = world.present.get();
        assert!(view.version.contains_key(KEY) && view.memtables.len() == 1);
    });
}

/// The same with a record cache in front of the version.
struct Fronted {
    world: World,
    front: Arc<dyn Front>,
}

impl Fronted {
    /// The key is in the version, with sequence 1, and not in the cache.
    fn new() -> Fronted {
        let world = World::new();
        world.write(1);
        world.switch();
        world.flush();
        Fronted { world, front: part(&Cache::new(Memory::new(16 << 20), 7, 1 << 20), 0, true) }
    }

    /// It is in the cache too.
    fn read_before() -> Fronted {
        let fronted = Fronted::new();
        assert_eq!(fronted.read(), 1);
        fronted
    }

    fn read(&self) -> Seq {
        let mut value = Vec::new();
        match self.world.present.search((HASH, KEY), &mut value, Some(&*self.front)) {
            Ok(found) => assert!(found, "nothing is deleted"),
            Err(Beyond { version, ticket }) => {
                value.clone_from(&version.get(KEY).expect("it is never deleted").0);
                self.front.admit(KEY, &value, ticket.expect("there is a cache"));
            }
        }
        Seq::from(value[0])
    }

    /// As a flush: refreshed before the view without the memtable is published.
    fn flush(&self) {
        let (oldest, mut value) = (self.world.present.oldest_sealed().expect("it was switched"), Vec::new());
        oldest.memtable.get(HASH, KEY, &mut value);
        self.front.refresh(KEY, Some(&value));
        drop(oldest);
        self.world.flush();
    }

    /// Two reads beside a write, a switch, a refresh and the view without the memtable.
    fn read_beside_a_flush(self: Arc<Fronted>) {
        let reader = spawn(&self, |fronted| {
            let read = [fronted.read(), fronted.read()];
            assert!(read[0] <= read[1], "{read:?}");
        });
        self.world.write(2);
        assert_eq!(self.read(), 2);
        self.world.switch();
        self.flush();
        assert_eq!(self.read(), 2);
        reader.join().unwrap();
        assert_eq!(self.read(), 2);
    }
}

/// Q1. It fails if the ticket is taken after the view is loaded, if what is found in the cache goes before memtables,
/// if nothing is refreshed, or if it is after the view is published.
#[test]
fn the_record_cache_is_no_older_than_what_is_below_memtables() {
    all_orders(2, Fronted::new, |fronted| fronted.read_beside_a_flush());
}

/// Q1. It fails if the cache is looked at before memtables.
#[test]
fn a_hit_in_the_record_cache_is_no_older_than_memtables_that_were_flushed() {
    all_orders(2, Fronted::read_before, |fronted| fronted.read_beside_a_flush());
}

/// A value that is counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Counted {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a table, and the clock.
struct Shelf {
    domain: Arc<Domain>,
    part: Arc<Part<Counted>>,
    clock: Mutex<Clock>,
    alive: Arc<AtomicUsize>,
    loads: AtomicUsize,
    evictions: AtomicUsize,
}

impl Shelf {
    fn new() -> Shelf {
        let domain = Domain::new();
        let (part, clock) = (Part::absent(&domain), Mutex::new(Clock::default()));
        Shelf { domain, part, clock, alive: Arc::default(), loads: AtomicUsize::new(0), evictions: AtomicUsize::new(0) }
    }

    fn read(&self) {
        let load = || {
            self.loads.fetch_add(1, Ordering::Relaxed);
            Ok(Counted::new(&self.alive))
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

/// K6: two readers of a part that is absent, and an eviction beside. It is loaded once, and once more where it was
/// evicted. It fails if who has waited for a load does not look before he loads himself.
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

/// Room, and the memtables that it is for.
struct Crowd {
    memory: Arc<Memory>,
    room: Arc<Room>,
    present: Present<()>,
}

impl Crowd {
    fn new() -> Crowd {
        let memory = Memory::new(32 << 20);
        let (room, present) =
            (Arc::new(Room::new(&Pool::new(&memory))), Present::new(&Domain::new(), Memtable::new(b""), ()));
        Crowd { memory, room, present }
    }

    fn free(&self) -> u64 {
        self.present.load(&self.present.pin()).unsealed().map(|memtable| memtable.free() as u64).sum()
    }

    fn admit(&self, key: &[u8]) -> Credit {
        self.room.admit(Memtable::words(HASH, key, Some(b"1")), || Size::Slab, || self.free()).expect("there is memory")
    }

    fn write(&self, key: &[u8]) {
        let credit = self.admit(key);
        {
            let pin = self.present.pin();
            self.present.load(&pin).active().apply(HASH, key, Some(b"1"), 1, &mut || self.room.take());
        }
        self.room.give_back(credit);
    }

    fn switch(&self) {
        let credit = self.room.admit_switch(|| self.free()).expect("there is memory");
        let room = self.room.clone();
        self.present.switch(Memtable::new(b""), move || room.give_back(credit));
    }
}

/// K5: two writes and a cancel beside an admission that switches. Nobody finds no slab. It fails if a switch promises
/// nothing: the end of the slab that it leaves was counted for who was admitted before.
#[test]
fn whoever_is_admitted_finds_room_beside_a_switch() {
    all_orders(2, Crowd::new, |crowd| {
        crowd.write(b"0");
        let others = [b"a", b"b"].map(|key| spawn(&crowd, move |crowd| crowd.write(key)));
        crowd.room.give_back(crowd.admit(b"c"));
        crowd.switch();
        crowd.write(b"d");
        others.into_iter().for_each(|other| other.join().unwrap());
        let (view, mut value) = (crowd.present.get(), Vec::new());
        for key in [b"0", b"a", b"b", b"d"] {
            assert!(view.memtables.iter().any(|member| member.memtable.get(HASH, key, &mut value).is_some()));
        }
    });
}

/// K7: two writes while ready slabs are given back. Nobody finds no slab, and none is lost. It fails if those who are
/// promised room do not wait for the end of that: the slabs that they counted go.
#[test]
fn whoever_is_admitted_finds_room_beside_a_trim() {
    all_orders(2, Crowd::new, |crowd| {
        // A slab is ready, and nobody was promised it.
        crowd.room.give_back(crowd.admit(b"c"));
        let other = spawn(&crowd, |crowd| crowd.write(b"a"));
        crowd.room.trim();
        crowd.write(b"b");
        other.join().unwrap();
        let (view, mut value) = (crowd.present.get(), Vec::new());
        assert!([b"a", b"b"].iter().all(|key| view.memtables[0].memtable.get(HASH, *key, &mut value).is_some()));
        crowd.room.trim();
        assert_eq!(
            (crowd.room.bytes(), crowd.memory.used(&[Component::Memtable])),
            (0, view.memtables[0].memtable.bytes())
        );
    });
}
