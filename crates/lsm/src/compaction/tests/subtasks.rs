//! Subtasks that only record that they ran.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use ecotone_substrate::{Error, Result};
use ecotone_sys::primitive::Mutex;

use crate::compaction::executor::subtasks::{ParallelJob, Subtasks};

/// The outcomes of the subtasks, in the order in which they run.
#[derive(Clone, Copy)]
enum Fate {
    Made,
    NoMemory,
    Fails,
    Panics,
}

/// Records the numbers of the subtasks. A subtask that runs again has another outcome.
struct Notes {
    fates: Mutex<Vec<Fate>>,
    came: Arc<Mutex<Vec<usize>>>,
}

impl ParallelJob for Notes {
    type Output = usize;

    fn run_part(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<usize> {
        assert!(goes_on());
        self.came.lock().push(part);
        let fate = self.fates.lock().remove(0);
        match fate {
            Fate::Made => Ok(part),
            Fate::NoMemory => Err(Error::Memory { what: "a part", budget: 1 }),
            Fate::Fails => Err(Error::Invalid("a disk".to_owned())),
            Fate::Panics => panic::resume_unwind(Box::new(())),
        }
    }
}

fn parts(count: usize, fates: &[Fate]) -> (Arc<Subtasks<Notes>>, Arc<Mutex<Vec<usize>>>) {
    let came = Arc::default();
    (Subtasks::new(Notes { fates: Mutex::new(fates.to_vec()), came: Arc::clone(&came) }, count), came)
}

#[test]
fn each_part_is_made_once_and_who_comes_late_keeps_nothing() {
    let (parts, came) = parts(4, &[Fate::Made; 4]);
    assert_eq!(parts.run_all().unwrap(), [0, 1, 2, 3]);
    assert_eq!(Arc::strong_count(&came), 1, "the work is gone");
    parts.help();
    assert_eq!(*came.lock(), [0, 1, 2, 3]);
}

#[test]
fn a_part_that_is_refused_memory_comes_again_when_the_others_have_ended() {
    let (parts, came) = parts(3, &[Fate::NoMemory, Fate::Made, Fate::Made, Fate::Made]);
    parts.help();
    assert_eq!(*came.lock(), [0], "who helps takes no more");
    assert_eq!(parts.run_all().unwrap(), [0, 1, 2]);
    assert_eq!(*came.lock(), [0, 1, 2, 0]);
}

#[test]
fn a_part_that_is_refused_memory_again_ends_the_job() {
    for (count, fates) in [(2, &[Fate::NoMemory, Fate::Made, Fate::NoMemory][..]), (1, &[Fate::NoMemory])] {
        let (parts, came) = parts(count, fates);
        let (error, made) = parts.run_all().unwrap_err();
        assert!(matches!(error, Error::Memory { .. }) && made.len() == count - 1);
        assert_eq!(came.lock().len(), fates.len());
    }
}

#[test]
fn the_first_failure_ends_all() {
    let (parts, came) = parts(4, &[Fate::Made, Fate::Fails]);
    parts.help();
    let (error, made) = parts.run_all().unwrap_err();
    assert!(matches!(error, Error::Invalid(what) if what == "a disk") && made == [0]);
    assert_eq!(*came.lock(), [0, 1]);
}

#[test]
fn a_panic_of_who_helps_ends_the_job_with_an_error_and_one_of_its_own_thread_leaves_nobody_waiting() {
    let (helped, came) = parts(3, &[Fate::Made, Fate::Panics]);
    assert!(panic::catch_unwind(AssertUnwindSafe(|| helped.help())).is_err());
    let (error, made) = helped.run_all().unwrap_err();
    assert!(error.to_string().contains("panicked") && made == [0] && *came.lock() == [0, 1]);
    let (alone, came) = parts(3, &[Fate::Panics]);
    assert!(panic::catch_unwind(AssertUnwindSafe(|| alone.run_all())).is_err());
    alone.help();
    assert_eq!((came.lock().len(), Arc::strong_count(&came)), (1, 1));
}
