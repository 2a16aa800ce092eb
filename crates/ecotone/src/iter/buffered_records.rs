//! Copies of a few records, in a frame of the windows' memory. Without a frame there is one copy, in an ordinary
//! buffer.

use std::{collections::VecDeque, ops::Range};

use ecotone_engine::contract::RecordRef;
use ecotone_substrate::{
    limits::MAX_RECORD,
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::chunk::Size;

/// Copied records, in the order of the scan.
#[derive(Debug, Default)]
pub(super) struct BufferedRecords {
    frame: Option<Block>,
    /// Bytes of the frame in use.
    used: usize,
    /// The record, if there is no frame.
    single: Vec<u8>,
    /// The copies that were not returned yet, and the one returned last.
    left: VecDeque<Copy>,
    given: Option<Copy>,
}

/// The location of a copied record.
#[derive(Debug)]
struct Copy {
    key: Range<usize>,
    value: Range<usize>,
}

impl BufferedRecords {
    /// Starts over, with the memory that is free.
    pub(super) fn begin(&mut self, memory: &Memory) {
        (self.used, self.given) = (0, None);
        self.left.clear();
        self.frame = self.frame.take().or_else(|| memory.lease(Component::Windows, Size::Frame));
    }

    /// Whether another record fits.
    pub(super) fn has_room(&self) -> bool {
        match &self.frame {
            Some(frame) => frame.len() - self.used >= MAX_RECORD,
            None => self.left.is_empty(),
        }
    }

    /// Copies a record.
    pub(super) fn push(&mut self, (key, value): RecordRef<'_>) {
        let (start, middle, end) = (self.used, self.used + key.len(), self.used + key.len() + value.len());
        match &mut self.frame {
            Some(frame) => {
                frame[start..middle].copy_from_slice(key);
                frame[middle..end].copy_from_slice(value);
            }
            None => {
                self.single.clear();
                self.single.extend_from_slice(key);
                self.single.extend_from_slice(value);
            }
        }
        self.used = end;
        self.left.push_back(Copy { key: start..middle, value: middle..end });
    }

    /// Moves to the first of the remaining copies. False if none remains.
    pub(super) fn first(&mut self) -> bool {
        self.given = self.left.pop_front();
        self.given.is_some()
    }

    /// Moves to the last of the remaining copies. False if none remains.
    pub(super) fn last(&mut self) -> bool {
        self.given = self.left.pop_back();
        self.given.is_some()
    }

    /// Whether no copy remains.
    pub(super) fn is_used_up(&self) -> bool {
        self.left.is_empty()
    }

    /// The current record.
    pub(super) fn record(&self) -> Option<RecordRef<'_>> {
        let Copy { key, value } = self.given.as_ref()?;
        let bytes: &[u8] = self.frame.as_deref().unwrap_or(&self.single);
        Some((bytes.get(key.clone())?, bytes.get(value.clone())?))
    }
}
