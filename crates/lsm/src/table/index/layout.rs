//! The page layout of an encoded index: an item never crosses a page boundary.

use ecotone_substrate::limits::PAGE;

/// The bytes so far.
#[derive(Debug, Default)]
pub(super) struct Layout(Vec<u8>);

impl Layout {
    /// Appends bytes at the next multiple of `align`, so that they and `behind` further bytes lie in one page. Gives
    /// their offset.
    pub(super) fn put(&mut self, bytes: &[u8], align: usize, behind: usize) -> usize {
        let mut at = self.0.len().next_multiple_of(align);
        if at % PAGE + bytes.len() + behind > PAGE {
            at = at.next_multiple_of(PAGE);
        }
        self.0.resize(at, 0);
        self.0.extend_from_slice(bytes);
        at
    }

    /// Overwrites the bytes at an offset.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A layout that begins with `length` zeros.
    pub(super) fn zeroed(length: usize) -> Layout {
        Layout(vec![0; length])
    }

    /// All bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}
