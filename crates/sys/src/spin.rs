//! How long a thread that waits for the disk yields to other threads before it sleeps (waiting.md).

use std::thread;

/// The most times that a thread yields in one wait.
const POLLS: u32 = 256;
/// One in so many waits polls up to the maximum, however many were in vain before.
const TRIES: u32 = 64;

/// The number of polls, adapted to earlier waits.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Polls to try: halved after a wait that took longer, doubled after one that did not.
    worth: u32,
    waits: u32,
    polls: bool,
}

impl Patience {
    /// Without `polls` the thread sleeps at once.
    pub(crate) fn new(polls: bool) -> Patience {
        Patience { worth: POLLS, waits: 0, polls }
    }

    /// Yields to other threads until `is_done`, for as many polls as are worth it. Returns whether it is done.
    pub(crate) fn wait(&mut self, mut is_done: impl FnMut() -> bool) -> bool {
        if is_done() {
            return true;
        }
        if !self.polls {
            return false;
        }
        self.waits = self.waits.wrapping_add(1);
        let polls = if self.waits.is_multiple_of(TRIES) { POLLS } else { self.worth };
        let done = (0..polls).any(|_| {
            thread::yield_now();
            is_done()
        });
        let worth = if done { polls.saturating_mul(2) } else { self.worth / 2 };
        self.worth = worth.clamp(1, POLLS);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polls of a wait that needs so many.
    fn polls(patience: &mut Patience, needed: u32) -> u32 {
        let mut asked = 0;
        patience.wait(|| {
            asked += 1;
            asked > needed
        });
        asked - 1
    }

    #[test]
    fn what_is_ready_is_not_waited_for() {
        let mut patience = Patience::new(true);
        assert_eq!(polls(&mut patience, 0), 0);
        assert_eq!(patience.waits, 0);
    }

    #[test]
    fn who_has_no_patience_sleeps_at_once() {
        assert_eq!(polls(&mut Patience::new(false), 1), 0);
    }

    #[test]
    fn a_slow_disk_is_hardly_polled_and_a_disk_that_has_become_fast_is_again() {
        let mut patience = Patience::new(true);
        let slow: u32 = (1..TRIES).map(|_| polls(&mut patience, u32::MAX)).sum();
        assert!(slow < 2 * POLLS + TRIES, "{slow} polls in vain");
        assert_eq!(polls(&mut patience, 20), 20, "one of many waits is tried with all of them");
        assert_eq!(polls(&mut patience, 200), 200);
    }
}
