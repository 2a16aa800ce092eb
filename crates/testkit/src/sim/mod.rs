//! A disk kept in memory that behaves as badly as real disks may, and a clock; both are functions of a seed.
//!
//! ```text
//! SimStorage ── Shared ── SimState ── names:  FileId -> History of inodes (the directory since its last sync)
//!   SimFile ──┘              │       inode:  synced pages + versions of each page written since + History of lengths
//!  SimQueue ──┘              └────── faults, space, gates, the trace of all I/O
//! ```
//!
//! What is modelled, and what is not, is in `docs/reliability.md`.

mod clock;
mod fault;
mod file;
mod gate;
mod history;
mod inode;
mod pages;
mod phase;
mod queue;
mod state;
mod stepped_thread;
mod storage;

#[cfg(test)]
mod tests;

pub use clock::SimClock;
pub use history::Crash;
pub use phase::{Io, Label, Phase};
pub use stepped_thread::SteppedThread;
pub use storage::SimStorage;
