//! Tests of actions, values and pins, in sequence and in parallel.

use std::{panic::AssertUnwindSafe, panic::catch_unwind, sync::atomic::AtomicBool, sync::mpsc, thread};

use super::super::*;

/// Counts its live values, and notices a use after the drop.
struct Tracked {
    alive: AtomicBool,
    living: Arc<AtomicUsize>,
}

impl Tracked {
    fn boxed(living: &Arc<AtomicUsize>) -> Box<Tracked> {
        living.fetch_add(1, Ordering::SeqCst);
        Box::new(Tracked { alive: AtomicBool::new(true), living: living.clone() })
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, Ordering::SeqCst), "dropped twice");
        self.living.fetch_sub(1, Ordering::SeqCst);
    }
}

fn noting(done: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let done = done.clone();
    move || {
        done.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_action_waits_for_the_pins_of_its_moment_and_for_no_others() {
    let (domain, done) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    domain.bump(noting(&done));
    assert_eq!(done.load(Ordering::SeqCst), 1, "nobody is pinned");
    let early = domain.pin();
    domain.bump(noting(&done));
    let late = domain.pin();
    domain.bump(noting(&done));
    assert_eq!(done.load(Ordering::SeqCst), 1);
    drop(early);
    assert_eq!(done.load(Ordering::SeqCst), 2, "the later pin holds the later action alone");
    drop(late);
    assert_eq!(done.load(Ordering::SeqCst), 3);
}

#[test]
fn an_action_may_bump_again() {
    let (domain, done) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let pin = domain.pin();
    domain.bump({
        let (domain, done) = (Arc::downgrade(&domain), done.clone());
        move || domain.upgrade().unwrap().bump(noting(&done))
    });
    drop(pin);
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[test]
fn pins_of_more_threads_than_places_wait_for_one_another() {
    let domain = Domain::new();
    let pins: Vec<_> = (0..PLACES).map(|_| domain.pin()).collect();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let domain = &domain;
        scope.spawn(move || {
            drop(domain.pin());
            sender.send(()).unwrap();
        });
        assert!(receiver.recv_timeout(std::time::Duration::from_millis(20)).is_err());
        drop(pins);
        receiver.recv().unwrap();
    });
}

#[test]
fn a_replaced_value_lives_until_the_pins_of_its_time_are_gone() {
    let (domain, living) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let slot = Slot::new(&domain, Some(Tracked::boxed(&living)));
    let pin = domain.pin();
    let old = slot.load(&pin).unwrap();
    slot.swap(Some(Tracked::boxed(&living)), drop);
    slot.swap(None, drop);
    assert!(slot.load(&pin).is_none() && old.alive.load(Ordering::SeqCst));
    assert_eq!(living.load(Ordering::SeqCst), 2);
    drop(pin);
    assert_eq!(living.load(Ordering::SeqCst), 0);
    slot.swap(None, |_| unreachable!("there was none"));
    slot.swap(Some(Tracked::boxed(&living)), drop);
    drop(slot);
    assert_eq!(living.load(Ordering::SeqCst), 0);
}

#[test]
fn what_waits_when_a_domain_ends_is_done_then() {
    let (domain, done) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let waiting = domain.waiting.lock();
    // The pin finds the lock taken, as may happen at the last moment of a domain.
    domain.count.store(1, Ordering::Relaxed);
    drop(domain.pin());
    drop(waiting);
    let pin = domain.pin();
    domain.bump(noting(&done));
    domain.count.store(0, Ordering::Relaxed);
    drop(pin);
    assert_eq!(done.load(Ordering::SeqCst), 0, "the pin saw nothing to do");
    drop(domain);
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[test]
fn a_drain_does_what_was_missed() {
    let (domain, done) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let pin = domain.pin();
    domain.bump(noting(&done));
    domain.count.store(0, Ordering::Relaxed);
    drop(pin);
    domain.drain();
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[test]
fn domains_do_not_mix() {
    let (one, two) = (Domain::new(), Domain::new());
    let slot = Slot::new(&one, Some(Box::new(7)));
    let (right, wrong) = (one.pin(), two.pin());
    assert_eq!(slot.load(&right), Some(&7));
    assert!(catch_unwind(AssertUnwindSafe(|| slot.load(&wrong).copied())).is_err());
}

#[test]
#[cfg(debug_assertions)]
fn who_holds_a_pin_is_told() {
    let domain = Domain::new();
    assert_unpinned();
    let pin = domain.pin();
    assert!(catch_unwind(assert_unpinned).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| domain.drain())).is_err());
    drop(pin);
    domain.drain();
}

#[test]
fn threads_look_at_values_that_others_replace() {
    const TURNS: usize = 5_000;
    let (domain, living) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let slots: Vec<_> = (0..3).map(|_| Slot::new(&domain, Some(Tracked::boxed(&living)))).collect();
    thread::scope(|scope| {
        for first in 0..4 {
            let (domain, slots, living) = (&domain, &slots, &living);
            scope.spawn(move || {
                for turn in first..first + TURNS {
                    let pin = domain.pin();
                    let values: Vec<_> = slots.iter().filter_map(|slot| slot.load(&pin)).collect();
                    if turn % 3 == 0 {
                        slots[turn / 3 % 3].swap(Some(Tracked::boxed(living)), drop);
                    }
                    assert!(values.iter().all(|value| value.alive.load(Ordering::SeqCst)));
                }
            });
        }
    });
    domain.drain();
    assert_eq!((domain.waiting.lock().len(), living.load(Ordering::SeqCst)), (0, 3));
    drop(slots);
    assert_eq!(living.load(Ordering::SeqCst), 0);
}
