//! Group commit: several threads share one transaction or one sync.

use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use crate::error::Result;

/// Collects the work that threads submit while a commit is in progress, and passes all of it to the next commit. So a
/// store with a single writer shares its commits and syncs among any number of threads.
#[derive(Debug)]
pub(super) struct Group<W> {
    queue: Mutex<Queue<W>>,
    ended: Condvar,
}

#[derive(Debug)]
struct Queue<W> {
    waiting: Vec<W>,
    /// Receives the outcome of the waiting work.
    outcome: Arc<OnceLock<Outcome>>,
    busy: bool,
}

/// Whether each item of work was done, or the error of the whole commit.
type Outcome = std::result::Result<Vec<bool>, String>;

impl<W> Group<W> {
    pub(super) fn new() -> Self {
        Group {
            queue: Mutex::new(Queue { waiting: Vec::new(), outcome: Arc::default(), busy: false }),
            ended: Condvar::new(),
        }
    }

    /// Waits until a commit includes `work`, and returns whether it was done. `commit` does all the work passed to it;
    /// one of the waiting threads calls its own.
    pub(super) fn submit(&self, work: W, commit: impl FnOnce(&[W]) -> Result<Vec<bool>>) -> Result<bool> {
        let mut queue = self.queue.lock();
        let (number, outcome) = (queue.waiting.len(), Arc::clone(&queue.outcome));
        queue.waiting.push(work);
        while queue.busy && outcome.get().is_none() {
            self.ended.wait(&mut queue);
        }
        if outcome.get().is_none() {
            let all = queue.take();
            drop(queue);
            let done = commit(&all).map_err(|error| error.to_string());
            outcome.set(done).expect("one thread commits what waited together");
            self.queue.lock().busy = false;
            self.ended.notify_all();
        }
        match outcome.get().expect("the wait ended with it") {
            Ok(done) => Ok(done[number]),
            Err(error) => Err(error.clone().into()),
        }
    }
}

impl<W> Queue<W> {
    /// Takes the waiting work; later work belongs to the next commit.
    fn take(&mut self) -> Vec<W> {
        self.busy = true;
        self.outcome = Arc::default();
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn work_is_done_once_and_shared() {
        let (group, commits, sum) = (Group::new(), AtomicU32::new(0), AtomicU32::new(0));
        let commit = |all: &[u32]| {
            commits.fetch_add(1, Ordering::Relaxed);
            sum.fetch_add(all.iter().sum(), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
            Ok(all.iter().map(|number| number % 2 == 0).collect())
        };
        thread::scope(|scope| {
            for number in 0..8 {
                let (group, commit) = (&group, &commit);
                scope.spawn(move || {
                    (0..20).for_each(|_| assert_eq!(group.submit(number, commit).unwrap(), number % 2 == 0))
                });
            }
        });
        assert_eq!(sum.into_inner(), 20 * 28);
        let commits = commits.into_inner();
        assert!((20..160).contains(&commits), "{commits} commits");
    }

    #[test]
    fn all_that_shared_a_failure_hear_of_it() {
        let group = Group::new();
        let failure = group.submit((), |_| Err("the disk is full".into())).unwrap_err();
        assert_eq!(failure.to_string(), "the disk is full");
        assert!(group.submit((), |all| Ok(vec![true; all.len()])).unwrap());
    }
}
