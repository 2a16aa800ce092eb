//! Whether files of a directory may be changed still: not once it is closed, when another may have opened it, and not
//! in a process that was forked off.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use ecotone_sys::life::Life;

use super::Directory;
use crate::{Error, Result};

/// Set once it is closed; below, how many change something.
const CLOSED: u64 = 1 << 63;
/// How often who closes it looks whether all of these have ended.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// The gate of a directory.
#[derive(Debug)]
pub(super) struct Gate {
    /// Of the process that opened it.
    life: Life,
    state: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { life: Life::present(), state: AtomicU64::new(0) }
    }
}

impl Gate {
    /// Lets a change begin. It may be made until what comes of this is dropped.
    pub(super) fn enter(&self) -> Result<Pass<'_>> {
        self.begin().map(|()| Pass(self))
    }

    /// An error if it is closed. To be asked after a read: what a closed directory gives is of whoever has it now.
    pub(super) fn check(&self) -> Result<()> {
        check(self.life, self.state.load(Ordering::Acquire))
    }

    /// Lets no change begin any more, and waits for those that have begun.
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

/// A change that has begun.
#[derive(Debug)]
pub(super) struct Pass<'g>(&'g Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The same of a request, which is on its way for longer than a call.
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
