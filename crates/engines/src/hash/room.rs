//! Room for what operations append: frames ahead of the log's end, and overflow buckets (decision 10, invariant 10).

use std::sync::Arc;

use ecotone_substrate::{
    Error, Result, limits,
    memory::{Component, Memory},
};
use ecotone_sys::{
    chunk::{Block, Size},
    epoch,
    primitive::Mutex,
};

use super::{Hash, log::Record};

/// What an operation needs before it can go on. It gives its pin back before it asks for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// Room in the hot log.
    Frame,
    /// An overflow bucket of the index.
    Bucket,
}

/// What an operation under one pin comes to.
pub(super) type Attempt<T> = std::result::Result<T, Lack>;

/// Bytes of the largest record.
const LARGEST: u64 = Record::bytes(Record::capacity_for(limits::MAX_RECORD));
/// A frame, and a block of the index. A model of loom has few words, whatever the block.
pub(super) const BLOCK: Size = if cfg!(feature = "loom") { Size::Frame } else { Size::Slab };

/// Where blocks come from.
#[derive(Debug)]
pub(super) struct Room {
    memory: Arc<Memory>,
    /// Held by who makes room, so that the others find it made.
    making: Mutex<()>,
}

impl Room {
    pub(super) fn new(memory: &Arc<Memory>) -> Room {
        Room { memory: memory.clone(), making: Mutex::new(()) }
    }

    /// As many blocks as have so many bytes.
    pub(super) fn lease_all(&self, bytes: usize) -> Result<Vec<Block>> {
        (0..bytes.div_ceil(BLOCK.bytes())).map(|_| self.lease()).collect()
    }

    /// A block for what is read at one place of a file.
    pub(super) fn frame(&self) -> Result<Block> {
        self.memory.lease_essential(Component::Frames, Size::Frame)
    }

    /// A block for the hot log or the index.
    pub(super) fn lease(&self) -> Result<Block> {
        self.memory.lease(Component::Other, BLOCK).ok_or_else(|| self.refused())
    }

    fn refused(&self) -> Error {
        Error::Memory { what: "hot log", budget: self.memory.budget() as u64 }
    }
}

impl Hash {
    /// Makes room of the kind that an operation lacked, unless another has done so meanwhile.
    pub(super) fn make_room(&self, lack: Lack) -> Result<()> {
        epoch::assert_unpinned();
        let _making = self.room.making.lock();
        let refused = match lack {
            Lack::Frame if !self.log.has_room(LARGEST) => self.log.grow(self.room.lease()?).is_err(),
            Lack::Bucket if self.table.overflow_left() == 0 => self.table.add_overflow(self.room.lease()?).is_err(),
            Lack::Frame | Lack::Bucket => false,
        };
        if refused { Err(self.room.refused()) } else { Ok(()) }
    }
}
