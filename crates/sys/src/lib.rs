//! The only crate of Ecotone with `unsafe` code: budgeted memory, files, two I/O drivers and a checksum.
//!
//! Start at [`chunk`] (the memory that everything else moves), then [`transfer`] (what a driver does with it).

pub mod blocking;
pub mod checksum;
pub mod chunk;
pub mod epoch;
pub mod file;
pub mod life;
#[cfg(feature = "lmdb")]
pub mod lmdb;
mod patience;
pub mod prefetch;
pub mod primitive;
pub mod processor;
pub mod transfer;
pub mod uring;
pub mod words;
