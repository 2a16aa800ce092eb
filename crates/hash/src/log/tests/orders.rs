//! All orders of a few calls, within a number of preemptions, by loom (hash-protocol.md, M3 and M4). A page has two
//! records of one word of key and value, or one of two; a frame two pages.

use ecotone_sys::primitive::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    orders::{self, spawn},
};

use super::*;

struct Fixture {
    domain: Arc<Domain>,
    log: HotLog,
}

/// Tries the orders of `work` with at most `preemptions` preemptions. Each begins with an empty log of `frames` frames.
fn all_orders(preemptions: usize, frames: usize, work: impl Fn(Arc<Fixture>) + Send + Sync + 'static) {
    let arena = arena();
    let begin = move || {
        let (domain, log) = log(&arena, frames);
        Fixture { domain, log }
    };
    orders::all_orders(preemptions, begin, work);
}

impl Fixture {
    fn append(&self, key: &[u8], value: &[u8]) -> Address {
        let pin = self.domain.pin();
        let raw = self.log.allocate(key, Some(value), &pin).expect("there are frames");
        let address = raw.address();
        raw.made_known();
        address
    }

    fn read(&self, address: Address) -> (RecordHeader, Vec<u8>) {
        let (pin, mut value) = (self.domain.pin(), Vec::new());
        let state = self.log.record(address, &pin).expect("it is in memory").read(&mut value);
        (state, value)
    }

    /// Changes the record in place, if it is not below READ_ONLY and not sealed. Returns whether it did.
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

/// Three records at the end of a page for two. Each has its own bytes in one page, and a thread that sees TAIL behind
/// one finds its frame. The test fails if TAIL is stored, not exchanged.
#[test]
fn places_at_the_end_of_a_page_are_given_out_once() {
    all_orders(3, 2, |fixture| {
        fixture.append(b"1", b"1");
        let other = spawn(&fixture, |fixture| fixture.append(b"2", b"2"));
        let reader = spawn(&fixture, |fixture| {
            let (tail, pin) = (fixture.log.tail(), fixture.domain.pin());
            let last = Address::new(tail.get() - 8);
            assert!(fixture.log.record(last, &pin).is_some(), "TAIL is in a frame that is there");
        });
        let mine = fixture.append(b"3", b"3");
        let others = other.join().unwrap();
        reader.join().unwrap();
        assert_ne!(mine, others);
        assert_eq!((fixture.read(mine).1, fixture.read(others).1), (b"3".to_vec(), b"2".to_vec()));
        let (low, high) = (mine.min(others), mine.max(others));
        assert_eq!((low, high), (Address::new(PAGE + 40), Address::new(2 * PAGE + PAGE_HEADER)));
    });
}

/// A page is closed beside two allocations, one of which may be in it. Each has its own place, below the boundary or in
/// a later page, and a walk below the boundary finds exactly those below. The test fails if TAIL is stored, not
/// exchanged.
#[test]
fn a_page_is_closed_beside_allocations() {
    all_orders(3, 2, |fixture| {
        fixture.append(b"1", b"1");
        let other = spawn(&fixture, |fixture| fixture.append(b"2", b"2"));
        let closer = spawn(&fixture, |fixture| fixture.log.close_page());
        let mine = fixture.append(b"3", b"3");
        let (others, end) = (other.join().unwrap(), closer.join().unwrap());
        assert_ne!(mine, others);
        assert_eq!((fixture.read(mine).1, fixture.read(others).1), (b"3".to_vec(), b"2".to_vec()));
        assert!(end.in_page() == 0 && end <= fixture.log.tail() && mine.max(others) < fixture.log.tail());
        fixture.log.raise_read_only(end);
        fixture.domain.drain();
        let pin = fixture.domain.pin();
        let pages = (PAGE..end.get()).step_by(PAGE as usize).map(Address::new);
        let walked: Vec<Address> =
            pages.flat_map(|page| fixture.log.page(page, &pin).map(|(address, _)| address)).collect();
        let mut below: Vec<Address> =
            [Address::new(PAGE + PAGE_HEADER), mine, others].into_iter().filter(|place| *place < end).collect();
        below.sort();
        assert_eq!(walked, below);
    });
}

/// A frame enters beside an allocation that may need it and a page that is closed. The test fails if TAIL can advance
/// before the frame is in the ring.
#[test]
fn the_tail_enters_a_frame_that_is_in_the_ring() {
    all_orders(3, 1, |fixture| {
        // The ring has one place, which the first frame leaves to the second.
        fixture.append(b"1", b"1");
        let end = fixture.log.close_page();
        fixture.log.raise_read_only(end);
        let admission = spawn(&fixture, move |fixture| {
            fixture.log.truncate(end, drop);
            fixture.log.enter(1, block(&arena())).is_ok()
        });
        let pin = fixture.domain.pin();
        let raw = fixture.log.allocate(b"2", Some(b"2"), &pin);
        let allocated = raw.is_some();
        drop(raw);
        drop(pin);
        assert!(admission.join().unwrap());
        assert_eq!(fixture.log.tail() > end, allocated);
    });
}

/// No reader sees parts of two values of two words. The test fails without the second look at the version, or without
/// one of the fences of lock and reader.
#[test]
fn a_reader_beside_two_writers_sees_a_whole_value() {
    all_orders(2, 1, |fixture| {
        let values = [b"00000000000", b"11111111111", b"22222222222"];
        let address = fixture.append(b"k", values[0]);
        let writers =
            [1, 2].map(|writer| spawn(&fixture, move |fixture| assert!(fixture.change(address, values[writer]))));
        let (state, value) = fixture.read(address);
        assert!(values.iter().any(|whole| value == **whole), "{value:?}");
        assert_eq!((state.kind(), state.value_len()), (HeaderKind::Value, 11));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(values[1..].iter().any(|whole| fixture.read(address).1 == **whole));
    });
}

/// Records below SAFE are copied with relaxed loads and do not change any more. The test fails if SAFE follows
/// READ_ONLY without a grace period.
#[test]
fn what_is_below_safe_does_not_change() {
    all_orders(3, 1, |fixture| {
        let address = fixture.append(b"k", b"000");
        let writer = spawn(&fixture, move |fixture| fixture.change(address, b"111"));
        let end = fixture.log.close_page();
        fixture.log.raise_read_only(end);
        let safe = fixture.log.bounds().safe() == end;
        let copied = safe.then(|| copy(&fixture, address));
        let changed = writer.join().unwrap();
        fixture.domain.drain();
        assert_eq!(fixture.log.bounds().safe(), end);
        let last = copy(&fixture, address);
        assert!(copied.is_none_or(|copied| copied == last), "it changed below SAFE");
        assert_eq!(last, if changed { b"111".to_vec() } else { b"000".to_vec() });
    });
}

/// Copies a record as a flush does: by the page, without looking at locks.
fn copy(fixture: &Fixture, address: Address) -> Vec<u8> {
    let pin = fixture.domain.pin();
    let page = Address::new(address.get() - address.in_page());
    let (at, record) = fixture.log.page(page, &pin).next().expect("the record is in its page");
    let mut value = Vec::new();
    assert_eq!(at, address);
    assert_eq!(record.read(&mut value), record.state(), "nobody holds the lock");
    value
}

/// The old value read after sealing is the last one, though another thread changes the record in place. The test fails
/// if unlocking does not release.
#[test]
fn no_change_follows_a_seal() {
    all_orders(3, 1, |fixture| {
        let address = fixture.append(b"k", b"000");
        let writer = spawn(&fixture, move |fixture| fixture.change(address, b"111"));
        let taken = {
            let (pin, mut value) = (fixture.domain.pin(), Vec::new());
            let mut locked = fixture.log.record(address, &pin).unwrap().lock();
            locked.seal();
            locked.read(&mut value);
            value
        };
        let changed = writer.join().unwrap();
        let (state, value) = fixture.read(address);
        assert!(state.sealed());
        assert_eq!(value, taken);
        assert_eq!(taken, if changed { b"111".to_vec() } else { b"000".to_vec() });
    });
}

/// When a block of an evicted frame comes back, no thread uses the frame. The test fails if frames leave before BEGIN
/// has passed them.
#[test]
fn a_frame_comes_back_when_no_reader_has_it() {
    all_orders(3, 1, |fixture| {
        let address = fixture.append(b"k", b"000");
        let end = fixture.log.close_page();
        fixture.log.raise_read_only(end);
        let (back, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let reader = spawn(&fixture, {
            let (back, reads) = (back.clone(), reads.clone());
            move |fixture| {
                let (pin, mut value) = (fixture.domain.pin(), Vec::new());
                if let Some(record) = fixture.log.record(address, &pin) {
                    record.read(&mut value);
                    assert_eq!(value, b"000");
                    assert!(!back.load(Ordering::Relaxed), "its memory was given back");
                    reads.store(1, Ordering::Relaxed);
                } else {
                    assert!(fixture.log.bounds().begin() > address, "it left, and BEGIN had not passed it");
                }
            }
        });
        fixture.log.truncate(Address::new(FRAME), {
            let back = back.clone();
            move |_| back.store(true, Ordering::Relaxed)
        });
        reader.join().unwrap();
        fixture.domain.drain();
        assert!(back.load(Ordering::Relaxed));
        let pin = fixture.domain.pin();
        assert!(fixture.log.record(address, &pin).is_none());
    });
}

/// A thread that misses a frame finds its pages in a file: FLUSHED has passed them. The test fails if frames leave
/// before that.
#[test]
fn a_frame_that_is_missed_was_written() {
    all_orders(3, 1, |fixture| {
        let address = fixture.append(b"k", b"000");
        let end = fixture.log.close_page();
        fixture.log.raise_read_only(end);
        let reader = spawn(&fixture, move |fixture| {
            let pin = fixture.domain.pin();
            if fixture.log.record(address, &pin).is_none() {
                assert!(fixture.log.bounds().flushed() > address, "it left, and was not written");
            }
        });
        fixture.log.bounds.raise_flushed(end);
        fixture.log.evict(Address::new(FRAME), drop);
        reader.join().unwrap();
    });
}
