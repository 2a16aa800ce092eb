//! Bytes of an index as they will lie in pages: what belongs together never lies across two.

use ecotone_substrate::limits::PAGE;

/// Bytes, front to back.
#[derive(Debug, Default)]
pub(super) struct Layout(Vec<u8>);

impl Layout {
    /// Appends bytes at the next multiple of `align`, in one page together with `behind` more of whatever kind; gives
    /// their place.
    pub(super) fn put(&mut self, bytes: &[u8], align: usize, behind: usize) -> usize {
        let mut at = self.0.len().next_multiple_of(align);
        if at % PAGE + bytes.len() + behind > PAGE {
            at = at.next_multiple_of(PAGE);
        }
        self.0.resize(at, 0);
        self.0.extend_from_slice(bytes);
        at
    }

    /// Puts bytes over those at a place.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// So many zeros in front.
    pub(super) fn zeroed(length: usize) -> Layout {
        Layout(vec![0; length])
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}
