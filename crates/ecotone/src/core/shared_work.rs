//! Work that one thread does for all threads that ask for it: a flush of the database.
//!
//! A thread that asks while the work runs waits for the next run, which serves all threads that asked before it began.
//! So each of many concurrent flushes waits for at most two runs, and does not repeat a run that has just ended.

use ecotone_substrate::lock_rank::{self, LockRank};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::Result;

/// Work that serves every call made before it begins.
#[derive(Debug, Default)]
pub(crate) struct SharedWork {
    /// The number of calls so far.
    asked: AtomicU64,
    /// The number of calls served. Locked by the thread that works.
    served: Mutex<u64>,
}

impl SharedWork {
    /// Runs `work`, unless another thread runs it after this call began.
    ///
    /// # Errors
    /// The errors of `work`. After an error each waiting thread runs `work` itself.
    pub(crate) fn run(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.served.lock();
        let _held = lock_rank::hold(LockRank::DatabaseFlush);
        if *served < number {
            let serves = self.asked.load(Ordering::SeqCst);
            work()?;
            *served = serves;
        }
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;
    use crate::Error;

    #[test]
    fn many_who_ask_at_a_time_are_served_by_two() {
        const MANY: usize = 16;
        let (work, done, barrier) = (SharedWork::default(), AtomicU64::new(0), Barrier::new(MANY));
        thread::scope(|scope| {
            for _ in 0..MANY {
                scope.spawn(|| {
                    barrier.wait();
                    let before = done.load(Ordering::SeqCst);
                    let slow = || {
                        while work.asked.load(Ordering::SeqCst) < MANY as u64 {
                            thread::yield_now();
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    work.run(slow).unwrap();
                    assert!(done.load(Ordering::SeqCst) > before, "it was done since it was asked for");
                });
            }
        });
        assert!((1..=2).contains(&done.load(Ordering::SeqCst)), "{done:?}");
    }

    #[test]
    fn who_fails_serves_nobody() {
        let work = SharedWork::default();
        assert!(work.run(|| Err(Error::Invalid("on purpose".into()))).is_err());
        let mut done = false;
        work.run(|| {
            done = true;
            Ok(())
        })
        .unwrap();
        assert!(done);
    }
}
