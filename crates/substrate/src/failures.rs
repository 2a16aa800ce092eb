//! What those who wait for the work of others are told when it fails.

use ecotone_sys::primitive::Mutex;

use crate::Error;

/// How often some work has failed, and why the last time. Whoever waits for it looks at the number first, so that all
/// of them are told of a failure that comes then.
#[derive(Debug, Default)]
pub struct Failures(Mutex<(u64, Option<Error>)>);

impl Failures {
    /// It has failed.
    pub fn add(&self, cause: Error) {
        let mut failures = self.0.lock();
        failures.0 += 1;
        failures.1 = Some(cause);
    }

    /// Their number so far.
    pub fn count(&self) -> u64 {
        self.0.lock().0
    }

    /// Why it failed since their number was `before`, if it did.
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
