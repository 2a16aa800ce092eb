//! Work that one thread does for all who ask for it: a flush of the database.
//!
//! Who asks while another works waits for the one after that, which serves all who asked before it began. So of many
//! who flush at a time each waits for two flushes at most, and does not do again what was just done.

use ecotone_substrate::held::{self, Kind};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::Result;

/// Work that is done for all who have asked for it before it begins.
#[derive(Debug, Default)]
pub(crate) struct SharedWork {
    /// How often it was asked for.
    asked: AtomicU64,
    /// How many of those who asked are served. Locked by the one who works.
    served: Mutex<u64>,
}

impl SharedWork {
    /// Does `work`, unless somebody else does who begins after this call.
    ///
    /// # Errors
    /// Those of `work`. Each of those who asked does it himself then.
    pub(crate) fn run(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.served.lock();
        let _held = held::hold(Kind::DatabaseFlush);
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
    use std::{sync::Barrier, thread, time::Duration};

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
                        thread::sleep(Duration::from_millis(100));
                        done.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    work.run(slow).unwrap();
                    assert!(done.load(Ordering::SeqCst) > before, "it was done since it was asked for");
                });
            }
        });
        assert!((1..=3).contains(&done.load(Ordering::SeqCst)), "{done:?}");
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
