//! Copies of a few records, in a frame of the windows' memory if there is one: then as many as that holds, and else
//! one.

use std::{collections::VecDeque, ops::Range};

use ecotone_engines::engine::RecordRef;
use ecotone_substrate::{
    limits::MAX_RECORD,
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::chunk::Size;

/// Records in the order in which a scan came to them.
#[derive(Debug, Default)]
pub(super) struct Copies {
    frame: Option<Block>,
    /// Bytes of the frame that are in use.
    used: usize,
    /// The record where there is no frame.
    single: Vec<u8>,
    /// Those that were not given, and the one that was given last.
    left: VecDeque<Copy>,
    given: Option<Copy>,
}

/// Where a record is.
#[derive(Debug)]
struct Copy {
    key: Range<usize>,
    value: Range<usize>,
}

impl Copies {
    /// Begins anew, with the memory that there is.
    pub(super) fn begin(&mut self, memory: &Memory) {
        (self.used, self.given) = (0, None);
        self.left.clear();
        self.frame = self.frame.take().or_else(|| memory.lease(Component::Windows, Size::Frame));
    }

    /// Whether one more record may come.
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

    /// Goes to the one that was copied first of those that are left. False if there is none.
    pub(super) fn first(&mut self) -> bool {
        self.given = self.left.pop_front();
        self.given.is_some()
    }

    /// The same for the one that was copied last.
    pub(super) fn last(&mut self) -> bool {
        self.given = self.left.pop_back();
        self.given.is_some()
    }

    /// Whether none is left.
    pub(super) fn is_used_up(&self) -> bool {
        self.left.is_empty()
    }

    /// The one that it went to.
    pub(super) fn record(&self) -> Option<RecordRef<'_>> {
        let Copy { key, value } = self.given.as_ref()?;
        let bytes: &[u8] = self.frame.as_deref().unwrap_or(&self.single);
        Some((bytes.get(key.clone())?, bytes.get(value.clone())?))
    }
}
