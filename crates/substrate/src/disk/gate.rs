//! The gate of a directory: whether its files may still be changed. They may not after the directory was closed, when
//! another process may have opened it, and not in a forked process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use ecotone_sys::process::Life;

use super::Directory;
use crate::{Error, Result};

/// Bit of a closed gate. The lower bits count the changes in progress.
const CLOSED: u64 = 1 << 63;
/// Time between two checks by the closing thread whether all changes have ended.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// The gate of a directory.
#[derive(Debug)]
pub(super) struct Gate {
    /// The process that opened the directory.
    life: Life,
    state: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { life: Life::present(), state: AtomicU64::new(0) }
    }
}

impl Gate {
    /// Begins a change. It lasts until the result is dropped.
    pub(super) fn enter(&self) -> Result<Pass<'_>> {
        self.begin().map(|()| Pass(self))
    }

    /// Fails if the directory is closed. Called after a read, since the bytes of a closed directory may be another
    /// process's.
    pub(super) fn check(&self) -> Result<()> {
        check(self.life, self.state.load(Ordering::Acquire))
    }

    /// Refuses new changes, and waits for those in progress.
    pub(super) fn close(&self) {
        let mut state = self.state.fetch_or(CLOSED, Ordering::AcqRel);
        while state & !CLOSED > 0 {
            thread::sleep(LOOK_AGAIN);
            state = self.state.load(Ordering::Acquire);
        }
    }

    fn begin(&self) -> Result<()> {
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        check(self.life, before).inspect_err(|_| self.end())
    }

    fn end(&self) {
        self.state.fetch_sub(1, Ordering::Release);
    }
}

fn check(life: Life, state: u64) -> Result<()> {
    if life.is_over() {
        return Err(Error::Forked);
    }
    if state & CLOSED > 0 { Err(Error::Closed { what: "the database" }) } else { Ok(()) }
}

/// A change in progress.
#[derive(Debug)]
pub(super) struct Pass<'g>(&'g Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The same for a request, which lasts longer than a call.
#[derive(Debug)]
pub(super) struct OwnedPass(Arc<Directory>);

impl OwnedPass {
    pub(super) fn enter(directory: &Arc<Directory>) -> Result<OwnedPass> {
        directory.gate.begin().map(|()| OwnedPass(directory.clone()))
    }
}

impl Drop for OwnedPass {
    fn drop(&mut self) {
        self.0.gate.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_closes_waits_for_those_who_change_something_and_lets_nobody_in() {
        let gate = Gate::default();
        let pass = gate.enter().unwrap();
        thread::scope(|scope| {
            let closing = scope.spawn(|| gate.close());
            while gate.check().is_ok() {
                thread::yield_now();
            }
            thread::sleep(10 * LOOK_AGAIN);
            assert!(!closing.is_finished(), "somebody is inside");
            assert!(matches!(gate.enter(), Err(Error::Closed { .. })));
            drop(pass);
        });
        assert!(matches!(gate.check(), Err(Error::Closed { .. })));
    }
}
