//! All interleavings of a job's subtasks, within a bound on preemptions, by loom (compaction-pace.md, P1).

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{Error, Result};
use ecotone_sys::primitive::orders::{all_orders, spawn};

use crate::compaction::executor::subtasks::{ParallelJob, Subtasks};

/// The outcome of the first run of subtask 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Made,
    NoMemory,
    Fails,
    Panics,
}

/// A job that counts the runs of each subtask, and the subtasks that are running.
struct Counts {
    fate: Fate,
    made: Arc<[AtomicUsize; 2]>,
    at_work: Arc<AtomicUsize>,
}

impl ParallelJob for Counts {
    type Output = usize;

    fn run_part(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<usize> {
        let others = self.at_work.fetch_add(1, Ordering::Relaxed);
        // A point where loom may switch to another thread.
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

struct Fixture {
    parts: Arc<Subtasks<Counts>>,
    made: Arc<[AtomicUsize; 2]>,
    at_work: Arc<AtomicUsize>,
}

impl Fixture {
    fn new(fate: Fate) -> Fixture {
        let (made, at_work) = (Arc::<[AtomicUsize; 2]>::default(), Arc::<AtomicUsize>::default());
        Fixture {
            parts: Subtasks::new(Counts { fate, made: made.clone(), at_work: at_work.clone() }, 2),
            made,
            at_work,
        }
    }
}

/// P1: a job of two subtasks beside a helper. Each subtask runs once, or again if it was refused memory. Whatever the
/// outcome of a subtask, the job's thread returns only when none is running any more, and then no thread holds the
/// shared state. The test fails if the job does not wait for the helper, or if a subtask counts as ended before it
/// drops the shared state.
#[test]
fn a_job_ends_when_all_that_was_begun_has_ended() {
    for fate in [Fate::Made, Fate::NoMemory, Fate::Fails, Fate::Panics] {
        all_orders(
            3,
            move || Fixture::new(fate),
            move |fixture| {
                let helper =
                    spawn(&fixture, |fixture| panic::catch_unwind(AssertUnwindSafe(|| fixture.parts.help())).is_err());
                let ended = panic::catch_unwind(AssertUnwindSafe(|| fixture.parts.run_all()));
                assert_eq!(fixture.at_work.load(Ordering::Relaxed), 0);
                assert_eq!(Arc::strong_count(&fixture.made), 1, "somebody has what the parts share");
                let panicked = helper.join().unwrap();
                let made = [0, 1].map(|part: usize| fixture.made[part].load(Ordering::Relaxed));
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
