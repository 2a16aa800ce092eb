//! Transfers between blocks of memory and files, and the interface that both drivers share.

use std::{fmt, io, sync::Arc};

use crate::{chunk::Block, file::File};

/// Transfers that a driver works on at a time; more wait inside [`Driver::submit`].
pub const ENTRIES: usize = 128;

/// One transfer. The driver owns the block until it has finished.
#[derive(Debug)]
pub struct Transfer<C> {
    /// The file.
    pub file: Arc<File>,
    /// True if the block is written to the file, false if the file's bytes are read into the block.
    pub write: bool,
    /// Byte offset in the file.
    pub offset: u64,
    /// The memory.
    pub block: Block,
    /// Bytes to transfer, from the start of the block.
    pub len: usize,
    /// A value of the caller's own, given back at the end.
    pub context: C,
}

/// A finished transfer.
#[derive(Debug)]
pub struct Finished<C> {
    /// The transfer, with its block.
    pub transfer: Transfer<C>,
    /// The bytes transferred; fewer than asked for only where a read meets the end of the file.
    pub result: io::Result<usize>,
}

/// A queue of transfers, used by one thread at a time, which must live until they have finished (the kernel cancels the
/// requests of a thread that ends). Transfers finish in any order.
pub trait Driver<C>: Send + fmt::Debug {
    /// Takes a transfer. With [`ENTRIES`] of them at work it waits for some, which the next `complete` gives.
    ///
    /// # Panics
    /// If the block is shorter than `len`.
    fn submit(&mut self, transfer: Transfer<C>);

    /// Starts everything submitted, waits until `at_least` transfers (or all, if there are fewer) have finished, and
    /// appends the finished ones to `done`.
    fn complete(&mut self, at_least: usize, done: &mut Vec<Finished<C>>);

    /// Transfers taken and not yet given back.
    fn in_flight(&self) -> usize;

    /// Whether the driver is as good as a new one, so that it is worth keeping.
    fn is_sound(&self) -> bool;
}

#[cfg(test)]
mod tests;
