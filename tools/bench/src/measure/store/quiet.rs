//! Waits until a store has finished its background work.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::error::Result;

/// A store counts as settled if nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(300);
/// Interval between checks.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for a store to settle.
const LONGEST: Duration = Duration::from_secs(600);

/// Waits until no job runs and nothing has changed for a while. `activity` returns the number of running jobs, and a
/// number that changes while there is work.
pub(super) fn wait(activity: impl Fn() -> (u64, u64)) -> Result<()> {
    let (begin, mut since, mut last) = (Instant::now(), Instant::now(), activity());
    while since.elapsed() < QUIET {
        if begin.elapsed() > LONGEST {
            return Err(format!("the store did not come to rest within {} s", LONGEST.as_secs()).into());
        }
        thread::sleep(LOOK);
        let now = activity();
        if now.0 > 0 || now != last {
            (since, last) = (Instant::now(), now);
        }
    }
    Ok(())
}
