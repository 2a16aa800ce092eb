//! Waiting until a store has nothing left to do.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::error::Result;

/// How long nothing may move before the store counts as settled.
const QUIET: Duration = Duration::from_millis(300);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for a store to settle.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until no job runs and nothing has moved for a while. `activity` gives the number of running jobs, and a number
/// that moves while there is work.
pub(super) fn wait(activity: impl Fn() -> (u64, u64)) -> Result<()> {
    let (begin, mut since, mut last) = (Instant::now(), Instant::now(), activity());
    while since.elapsed() < QUIET {
        if begin.elapsed() > PATIENCE {
            return Err(format!("the store did not come to rest within {} s", PATIENCE.as_secs()).into());
        }
        thread::sleep(LOOK);
        let now = activity();
        if now.0 > 0 || now != last {
            (since, last) = (Instant::now(), now);
        }
    }
    Ok(())
}
