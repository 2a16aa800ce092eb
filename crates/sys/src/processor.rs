//! The CPU time of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time that the calling thread has used so far.
pub fn used() -> Duration {
    // The kernel gives nothing below zero.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{hint, thread, time::Instant};

    use super::*;

    #[test]
    fn who_sleeps_uses_nothing_and_who_works_does() {
        let (begun, before) = (Instant::now(), used());
        thread::sleep(Duration::from_millis(30));
        let slept = used() - before;
        assert!(slept < Duration::from_millis(20) && slept < begun.elapsed(), "{slept:?}");
        let before = used();
        while used() - before < Duration::from_millis(2) {
            hint::spin_loop();
        }
    }
}
