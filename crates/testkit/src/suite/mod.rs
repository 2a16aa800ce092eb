//! Suites for any engine: they drive a database through [`Store`], on the simulated disk, and compare it with models.
//!
//! - [`contract`]: random histories with an occasional reopen; every answer is compared with the model;
//! - [`exhaustive`]: every history of up to three operations, with a crash and a failure at every I/O;
//! - [`campaign`]: long random histories with crashes drawn evenly over the phases, also during recovery;
//! - [`space`]: a disk that is full at every growth;
//! - [`interleave`]: calls that stop at their I/O while other calls run, in orders drawn from the seed;
//! - [`concurrent`]: threads that call at the same time, with crashes;
//! - [`crew`]: few threads with few calls, for a tool that chooses the order in which threads run.
//!
//! Everything but the scheduling of threads is a function of a seed. A suite returns a description of the failure, seed
//! included. Known bugs can be switched on to check that a suite notices them.

pub mod campaign;
pub mod concurrent;
pub mod contract;
pub mod crew;
pub mod exhaustive;
mod expect;
mod generate;
mod history;
pub mod interleave;
mod recovery;
mod session;
pub mod space;
mod step;
mod store;
mod superseded;
mod tally;
mod unlogged;
mod watched;

pub use store::{Counters, Kind, Opener, Store, UNLOGGED, Update, add};
pub use superseded::{ReportRecorder, ReportedVersion};
pub use watched::ObservedFactory;

/// The result of a suite: `Err` describes the first failure.
pub type Verdict<T = ()> = Result<T, String>;

/// Runs one case and turns a panic into a description too, so that the seed is always reported.
fn guarded<T>(what: impl FnOnce() -> String, case: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(case));
    match ended {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(wrong)) => Err(format!("{}: {wrong}", what())),
        Err(panic) => Err(format!("{}: panicked: {}", what(), message(&*panic))),
    }
}

/// Fails with the problems that the store's own check finds.
fn verified(store: &dyn Store) -> Verdict {
    match store.verify().map_err(|error| format!("verify failed: {error}"))?.first() {
        None => Ok(()),
        Some(problem) => Err(format!("verify found: {problem}")),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
