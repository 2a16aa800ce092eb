//! All orders of pins, swaps and their grace periods, by loom (hash-protocol.md, M1).

use super::super::*;
use crate::primitive::{
    atomic::AtomicBool,
    loom::{model::Builder, thread},
};

const READERS: usize = 2;

/// A value with marks that its readers set, and a flag for its end that outlives the value.
struct Value {
    marks: [AtomicBool; READERS],
    gone: Arc<AtomicBool>,
}

struct Fixture {
    domain: Arc<Domain>,
    slot: Slot<Value>,
    gone: Arc<AtomicBool>,
    /// What the action saw of the marks, and how often it ran.
    seen: Arc<[AtomicBool; READERS]>,
    runs: Arc<AtomicUsize>,
}

impl Fixture {
    fn new() -> Arc<Fixture> {
        let (domain, gone) = (Domain::new(), Arc::new(AtomicBool::new(false)));
        let value = Value { marks: Default::default(), gone: gone.clone() };
        let slot = Slot::new(&domain, Some(Box::new(value)));
        Arc::new(Fixture { domain, slot, gone, seen: Arc::default(), runs: Arc::default() })
    }

    /// Reads the value and sets a mark in it, with relaxed order. Returns whether there was a value.
    fn read(&self, reader: usize) -> bool {
        let pin = self.domain.pin();
        let Some(value) = self.slot.load(&pin) else { return false };
        value.marks[reader].store(true, Ordering::Relaxed);
        assert!(!value.gone.load(Ordering::Relaxed), "it is gone under a pin");
        true
    }

    fn replace(&self) {
        let (seen, runs) = (self.seen.clone(), self.runs.clone());
        self.slot.swap(None, move |value| {
            value.gone.store(true, Ordering::Relaxed);
            for (seen, mark) in seen.iter().zip(&value.marks) {
                seen.store(mark.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            runs.fetch_add(1, Ordering::Relaxed);
        });
    }
}

fn all_orders(preemptions: Option<usize>, work: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(work);
}

fn readers_beside_a_swap(readers: usize, turns: usize) {
    let fixture = Fixture::new();
    let threads: Vec<_> = (0..readers)
        .map(|reader| {
            let fixture = fixture.clone();
            // Each round after the first uses a place again.
            thread::spawn(move || (0..turns).map(|_| fixture.read(reader)).fold(false, |any, read| any | read))
        })
        .collect();
    fixture.replace();
    let read: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    fixture.domain.drain();
    assert!(fixture.gone.load(Ordering::Relaxed) && fixture.runs.load(Ordering::Relaxed) == 1);
    for (reader, read) in read.into_iter().enumerate() {
        assert_eq!(
            fixture.seen[reader].load(Ordering::Relaxed),
            read,
            "what a pinned thread wrote comes before the action"
        );
    }
}

#[test]
fn a_value_is_gone_once_and_after_the_pins_that_saw_it() {
    all_orders(None, || readers_beside_a_swap(1, 2));
    all_orders(Some(3), || readers_beside_a_swap(2, 1));
}

/// Two bumps by two threads, and a pin: data that a thread made unreachable is unreachable in its own action.
#[test]
fn two_graces_at_once_run_each_action_once() {
    all_orders(Some(3), || {
        let (domain, runs) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
        let bump = |domain: &Domain, runs: &Arc<AtomicUsize>| {
            let runs = runs.clone();
            domain.bump(move || {
                runs.fetch_add(1, Ordering::Relaxed);
            });
        };
        let other = thread::spawn({
            let (domain, runs) = (domain.clone(), runs.clone());
            move || bump(&domain, &runs)
        });
        let pin = domain.pin();
        bump(&domain, &runs);
        drop(pin);
        other.join().unwrap();
        domain.drain();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    });
}
