//! Log bytes that are not written to the kernel yet.

use ecotone_sys::chunk::{Block, Size};

use super::{mark::MARK_BYTES, record::FRAME_BYTES};
use crate::{
    Result,
    limits::MAX_LOG_RECORD,
    memory::{Component, Memory},
};

const SLAB: usize = 64 << 10;
/// A mebibyte, or the longest record. That record needs no more, since the buffer is emptied when it does not fit.
const SLABS: usize = (MAX_LOG_RECORD + FRAME_BYTES + MARK_BYTES).div_ceil(SLAB);

/// Bytes that a buffer takes.
pub(super) const CAPACITY: usize = SLABS * SLAB;

/// A byte string of at most [`CAPACITY`] bytes, in slabs of budgeted memory.
#[derive(Debug)]
pub(super) struct Buffer {
    slabs: Vec<Block>,
    length: usize,
}

impl Buffer {
    pub(super) fn new(memory: &Memory) -> Result<Self> {
        let slabs = (0..SLABS).map(|_| memory.lease_essential(Component::Log, Size::Slab)).collect::<Result<_>>()?;
        Ok(Buffer { slabs, length: 0 })
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends `bytes`, which must fit.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (slab, at) = (self.length / SLAB, self.length % SLAB);
            let (now, later) = bytes.split_at(bytes.len().min(SLAB - at));
            self.slabs[slab][at..at + now.len()].copy_from_slice(now);
            self.length += now.len();
            bytes = later;
        }
    }

    /// The bytes, slab by slab.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.slabs.iter().enumerate().map_while(|(i, slab)| {
            let length = self.length.checked_sub(i * SLAB)?.min(SLAB);
            (length > 0).then(|| &slab[..length])
        })
    }
}
