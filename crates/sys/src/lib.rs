//! The only crate of Ecotone with `unsafe` code: budgeted memory, epochs, files, two I/O drivers and a checksum.
//!
//! Start at [`chunk`] (the memory that everything else transfers), then [`transfer`] (the interface of the drivers).

pub mod blocking;
pub mod checksum;
pub mod chunk;
pub mod epoch;
pub mod file;
#[cfg(feature = "lmdb")]
pub mod lmdb;
pub mod prefetch;
pub mod primitive;
pub mod process;
pub mod processor;
mod spin;
pub mod transfer;
pub mod uring;
pub mod words;
