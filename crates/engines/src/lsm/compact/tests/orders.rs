//! All orders of the parts of a job, within a number of preemptions, by loom (decision 16, P1).

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{Error, Result};

use crate::{
    lsm::compact::parts::{Parts, Work},
    tests::orders::{all_orders, spawn},
};

/// What becomes of the first part when it is made first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Made,
    NoMemory,
    Fails,
    Panics,
}

/// Counts how often each part is made, and those who are at it.
struct Counts {
    fate: Fate,
    made: Arc<[AtomicUsize; 2]>,
    at_work: Arc<AtomicUsize>,
}

impl Work for Counts {
    type Made = usize;

    fn make(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<usize> {
        let others = self.at_work.fetch_add(1, Ordering::Relaxed);
        // What another thread does in between loom decides here.
        let _ = goes_on();
        let before = self.made[part].fetch_add(1, Ordering::Relaxed);
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        match self.fate {
            Fate::NoMemory if part == 0 && before == 0 => Err(Error::Memory { what: "a part", budget: 1 }),
            Fate::NoMemory if part == 0 => {
                assert_eq!(others, 0, "it is made again beside another");
                Ok(part)
            }
            Fate::Fails if part == 0 => Err(Error::Invalid("a disk".to_owned())),
            Fate::Panics if part == 0 => panic::resume_unwind(Box::new(())),
            _ => Ok(part),
        }
    }
}

struct World {
    parts: Arc<Parts<Counts>>,
    made: Arc<[AtomicUsize; 2]>,
    at_work: Arc<AtomicUsize>,
}

impl World {
    fn new(fate: Fate) -> World {
        let (made, at_work) = (Arc::<[AtomicUsize; 2]>::default(), Arc::<AtomicUsize>::default());
        World { parts: Parts::new(Counts { fate, made: made.clone(), at_work: at_work.clone() }, 2), made, at_work }
    }
}

/// P1: a job of two parts beside a helper. Each part is made once, or again if it was refused memory; the thread of the
/// job ends when nobody is at work any more, whatever becomes of a part, and then nobody has what the parts share. It
/// fails if who helps is not waited for, and if what the parts share goes after the part counts as ended.
#[test]
fn a_job_ends_when_all_that_was_begun_has_ended() {
    for fate in [Fate::Made, Fate::NoMemory, Fate::Fails, Fate::Panics] {
        all_orders(
            3,
            move || World::new(fate),
            move |world| {
                let helper =
                    spawn(&world, |world| panic::catch_unwind(AssertUnwindSafe(|| world.parts.help())).is_err());
                let ended = panic::catch_unwind(AssertUnwindSafe(|| world.parts.make_all()));
                assert_eq!(world.at_work.load(Ordering::Relaxed), 0);
                assert_eq!(Arc::strong_count(&world.made), 1, "somebody has what the parts share");
                let panicked = helper.join().unwrap();
                let made = [0, 1].map(|part: usize| world.made[part].load(Ordering::Relaxed));
                match (fate, ended) {
                    (Fate::Made, Ok(Ok(parts))) => assert_eq!((parts, made), (vec![0, 1], [1, 1])),
                    (Fate::NoMemory, Ok(Ok(parts))) => assert_eq!((parts, made), (vec![0, 1], [2, 1])),
                    (Fate::Fails, Ok(Err((_, parts)))) => {
                        assert!(made[0] == 1 && parts.len() == made[1], "{parts:?} {made:?}")
                    }
                    (Fate::Panics, Ok(Err(_))) => assert!(panicked && made[0] == 1),
                    (Fate::Panics, Err(_)) => assert!(!panicked && made[0] == 1),
                    (fate, ended) => panic!("{fate:?}: {:?}", ended.map_err(|_| "a panic")),
                }
            },
        );
    }
}
