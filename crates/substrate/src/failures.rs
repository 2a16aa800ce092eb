//! Tells the threads that wait for some work when it fails.

use ecotone_sys::primitive::Mutex;

use crate::Error;

/// The number of failures of some work, and the cause of the last one. A thread reads the number before it waits, so
/// that it learns of every failure that comes then.
#[derive(Debug, Default)]
pub struct Failures(Mutex<(u64, Option<Error>)>);

impl Failures {
    /// Adds a failure.
    pub fn add(&self, cause: Error) {
        let mut failures = self.0.lock();
        failures.0 += 1;
        failures.1 = Some(cause);
    }

    /// Number of failures so far.
    pub fn count(&self) -> u64 {
        self.0.lock().0
    }

    /// The cause of a failure after the number was `before`, if there was one.
    pub fn since(&self, before: u64) -> Option<Error> {
        let failures = self.0.lock();
        failures.1.clone().filter(|_| failures.0 > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_wait_are_told_of_a_failure_and_nobody_of_an_earlier_one() {
        let failures = Failures::default();
        failures.add(Error::Forked);
        let waiting = [failures.count(), failures.count()];
        assert!(waiting.iter().all(|before| failures.since(*before).is_none()));
        failures.add(Error::Closed { what: "the database" });
        assert!(waiting.iter().all(|before| matches!(failures.since(*before), Some(Error::Closed { .. }))));
        assert!(failures.since(failures.count()).is_none());
    }
}
