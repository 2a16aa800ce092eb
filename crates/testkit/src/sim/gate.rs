//! Pages at which I/O blocks until a test releases it.

use std::collections::BTreeMap;

use ecotone_substrate::{limits::PAGE, storage::FileId};

/// The pages that are held, with the number of I/Os blocked at each.
#[derive(Debug, Default)]
pub(super) struct Gates {
    held: BTreeMap<(FileId, u64), usize>,
}

/// One held page: file and page number.
pub(super) type Gate = (FileId, u64);

/// The gate of the page that holds byte `offset`.
pub(super) fn gate(file: FileId, offset: u64) -> Gate {
    (file, offset / PAGE as u64)
}

impl Gates {
    pub(super) fn hold(&mut self, gate: Gate) {
        self.held.entry(gate).or_default();
    }

    pub(super) fn release(&mut self, gate: Gate) {
        self.held.remove(&gate);
    }

    pub(super) fn release_all(&mut self) {
        self.held.clear();
    }

    /// The first held page that a transfer touches.
    pub(super) fn in_the_way(&self, file: FileId, offset: u64, len: usize) -> Option<Gate> {
        if self.held.is_empty() || len == 0 {
            return None;
        }
        let last = offset + len as u64 - 1;
        self.held.range(gate(file, offset)..=gate(file, last)).next().map(|(gate, _)| *gate)
    }

    pub(super) fn arrive(&mut self, gate: Gate) {
        if let Some(blocked) = self.held.get_mut(&gate) {
            *blocked += 1;
        }
    }

    /// A released gate forgets its count of blocked I/Os.
    pub(super) fn leave(&mut self, gate: Gate) {
        if let Some(blocked) = self.held.get_mut(&gate) {
            *blocked = blocked.saturating_sub(1);
        }
    }

    pub(super) fn blocked(&self, gate: Gate) -> usize {
        self.held.get(&gate).copied().unwrap_or(0)
    }
}
