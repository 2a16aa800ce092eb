//! All orders of a few calls, within a number of preemptions, by loom (decision 10, M3 and M4).
//! A page has two records of one word of key and value, or one of two; a frame two pages.

use ecotone_sys::primitive::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::tests::orders::{self, spawn};

struct World {
    domain: Arc<Domain>,
    log: HotLog,
}

/// Tries the orders of `work` with at most so many preemptions. It begins with an empty log of so many frames.
fn all_orders(preemptions: usize, frames: usize, work: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let arena = arena();
    let begin = move || {
        let (domain, log) = log(&arena, frames);
        World { domain, log }
    };
    orders::all_orders(preemptions, begin, work);
}

impl World {
    fn append(&self, key: &[u8], value: &[u8]) -> Address {
        let pin = self.domain.pin();
        let raw = self.log.allocate(key, Some(value), &pin).expect("there are frames");
        let address = raw.address();
        raw.made_known();
        address
    }

    fn read(&self, address: Address) -> (State, Vec<u8>) {
        let (pin, mut value) = (self.domain.pin(), Vec::new());
        let state = self.log.record(address, &pin).expect("it is in memory").read(&mut value);
        (state, value)
    }

    /// Changes the record in place, if it is not below READ_ONLY and not sealed. Whether it did.
    fn change(&self, address: Address, value: &[u8]) -> bool {
        let pin = self.domain.pin();
        if address < self.log.bounds().read_only() {
            return false;
        }
        let mut locked = self.log.record(address, &pin).expect("it is in memory").lock();
        let open = !locked.state().sealed();
        if open {
            locked.replace(Some(value));
        }
        open
    }
}

/// Three records at the end of a page for two: each has its own bytes, in one page, and whoever sees TAIL behind one
/// finds its frame. It fails where TAIL is stored, not exchanged.
#[test]
fn places_at_the_end_of_a_page_are_given_out_once() {
    all_orders(3, 2, |world| {
        world.append(b"1", b"1");
        let other = spawn(&world, |world| world.append(b"2", b"2"));
        let reader = spawn(&world, |world| {
            let (tail, pin) = (world.log.tail(), world.domain.pin());
            let last = Address::new(tail.get() - 8);
            assert!(world.log.record(last, &pin).is_some(), "TAIL is in a frame that is there");
        });
        let mine = world.append(b"3", b"3");
        let others = other.join().unwrap();
        reader.join().unwrap();
        assert_ne!(mine, others);
        assert_eq!((world.read(mine).1, world.read(others).1), (b"3".to_vec(), b"2".to_vec()));
        let (low, high) = (mine.min(others), mine.max(others));
        assert_eq!((low, high), (Address::new(PAGE + 40), Address::new(2 * PAGE + PAGE_HEADER)));
    });
}

/// A page is closed beside two allocations, of which one may be in it: each has its own place, below the boundary or in
/// a page behind it, and who walks what lies below finds just those. It fails where TAIL is stored, not exchanged.
#[test]
fn a_page_is_closed_beside_allocations() {
    all_orders(3, 2, |world| {
        world.append(b"1", b"1");
        let other = spawn(&world, |world| world.append(b"2", b"2"));
        let closer = spawn(&world, |world| world.log.close_page());
        let mine = world.append(b"3", b"3");
        let (others, end) = (other.join().unwrap(), closer.join().unwrap());
        assert_ne!(mine, others);
        assert_eq!((world.read(mine).1, world.read(others).1), (b"3".to_vec(), b"2".to_vec()));
        assert!(end.in_page() == 0 && end <= world.log.tail() && mine.max(others) < world.log.tail());
        world.log.raise_read_only(end);
        world.domain.drain();
        let pin = world.domain.pin();
        let pages = (PAGE..end.get()).step_by(PAGE as usize).map(Address::new);
        let walked: Vec<Address> =
            pages.flat_map(|page| world.log.page(page, &pin).map(|(address, _)| address)).collect();
        let mut below: Vec<Address> =
            [Address::new(PAGE + PAGE_HEADER), mine, others].into_iter().filter(|place| *place < end).collect();
        below.sort();
        assert_eq!(walked, below);
    });
}

/// A frame comes in beside an allocation that may need it, and a page is closed. It fails where TAIL may go on before
/// the frame is in the ring.
#[test]
fn the_tail_enters_a_frame_that_is_in_the_ring() {
    all_orders(3, 1, |world| {
        // The ring has one place, which the first frame leaves to the second.
        world.append(b"1", b"1");
        let end = world.log.close_page();
        world.log.raise_read_only(end);
        let admission = spawn(&world, move |world| {
            world.log.truncate(end, drop);
            world.log.enter(1, block(&arena())).is_ok()
        });
        let pin = world.domain.pin();
        let raw = world.log.allocate(b"2", Some(b"2"), &pin);
        let allocated = raw.is_some();
        drop(raw);
        drop(pin);
        assert!(admission.join().unwrap());
        assert_eq!(world.log.tail() > end, allocated);
    });
}

/// Of a value of two words nobody reads parts of two. It fails without the second look at the version, or without one
/// of the fences of lock and reader.
#[test]
fn a_reader_beside_two_writers_sees_a_whole_value() {
    all_orders(2, 1, |world| {
        let values = [b"00000000000", b"11111111111", b"22222222222"];
        let address = world.append(b"k", values[0]);
        let writers = [1, 2].map(|writer| spawn(&world, move |world| assert!(world.change(address, values[writer]))));
        let (state, value) = world.read(address);
        assert!(values.iter().any(|whole| value == **whole), "{value:?}");
        assert_eq!((state.kind(), state.value_len()), (Kind::Value, 11));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(values[1..].iter().any(|whole| world.read(address).1 == **whole));
    });
}

/// What is below SAFE is copied with relaxed loads, and is what it will always be. It fails where SAFE follows
/// READ_ONLY without a grace.
#[test]
fn what_is_below_safe_does_not_change() {
    all_orders(3, 1, |world| {
        let address = world.append(b"k", b"000");
        let writer = spawn(&world, move |world| world.change(address, b"111"));
        let end = world.log.close_page();
        world.log.raise_read_only(end);
        let safe = world.log.bounds().safe() == end;
        let copied = safe.then(|| copy(&world, address));
        let changed = writer.join().unwrap();
        world.domain.drain();
        assert_eq!(world.log.bounds().safe(), end);
        let last = copy(&world, address);
        assert!(copied.is_none_or(|copied| copied == last), "it changed below SAFE");
        assert_eq!(last, if changed { b"111".to_vec() } else { b"000".to_vec() });
    });
}

/// As a flush copies a record: by the page, without looking at locks.
fn copy(world: &World, address: Address) -> Vec<u8> {
    let pin = world.domain.pin();
    let page = Address::new(address.get() - address.in_page());
    let (at, record) = world.log.page(page, &pin).next().expect("the record is in its page");
    let mut value = Vec::new();
    assert_eq!(at, address);
    assert_eq!(record.read(&mut value), record.state(), "nobody holds the lock");
    value
}

/// The old value that is taken after sealing is the last one, though another changes the record in place. It fails
/// where unlocking does not release.
#[test]
fn no_change_follows_a_seal() {
    all_orders(3, 1, |world| {
        let address = world.append(b"k", b"000");
        let writer = spawn(&world, move |world| world.change(address, b"111"));
        let taken = {
            let (pin, mut value) = (world.domain.pin(), Vec::new());
            let mut locked = world.log.record(address, &pin).unwrap().lock();
            locked.seal();
            locked.read(&mut value);
            value
        };
        let changed = writer.join().unwrap();
        let (state, value) = world.read(address);
        assert!(state.sealed());
        assert_eq!(value, taken);
        assert_eq!(taken, if changed { b"111".to_vec() } else { b"000".to_vec() });
    });
}

/// A frame that left memory is used by nobody any more when its block comes back. It fails where frames leave before
/// BEGIN has passed them.
#[test]
fn a_frame_comes_back_when_no_reader_has_it() {
    all_orders(3, 1, |world| {
        let address = world.append(b"k", b"000");
        let end = world.log.close_page();
        world.log.raise_read_only(end);
        let (back, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let reader = spawn(&world, {
            let (back, reads) = (back.clone(), reads.clone());
            move |world| {
                let (pin, mut value) = (world.domain.pin(), Vec::new());
                if let Some(record) = world.log.record(address, &pin) {
                    record.read(&mut value);
                    assert_eq!(value, b"000");
                    assert!(!back.load(Ordering::Relaxed), "its memory was given back");
                    reads.store(1, Ordering::Relaxed);
                } else {
                    assert!(world.log.bounds().begin() > address, "it left, and BEGIN had not passed it");
                }
            }
        });
        world.log.truncate(Address::new(FRAME), {
            let back = back.clone();
            move |_| back.store(true, Ordering::Relaxed)
        });
        reader.join().unwrap();
        world.domain.drain();
        assert!(back.load(Ordering::Relaxed));
        let pin = world.domain.pin();
        assert!(world.log.record(address, &pin).is_none());
    });
}

/// Who misses a frame finds its pages in a file: FLUSHED has passed them. It fails where frames leave before that.
#[test]
fn a_frame_that_is_missed_was_written() {
    all_orders(3, 1, |world| {
        let address = world.append(b"k", b"000");
        let end = world.log.close_page();
        world.log.raise_read_only(end);
        let reader = spawn(&world, move |world| {
            let pin = world.domain.pin();
            if world.log.record(address, &pin).is_none() {
                assert!(world.log.bounds().flushed() > address, "it left, and was not written");
            }
        });
        world.log.bounds.raise_flushed(end);
        world.log.evict(Address::new(FRAME), drop);
        reader.join().unwrap();
    });
}
