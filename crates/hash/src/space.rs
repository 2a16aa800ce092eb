//! The space that an operation lacks, and the unit in which memory is taken (hash-protocol.md, invariant 10).

use ecotone_sys::{chunk::Size, primitive::unless_checked};

/// Size of a frame, and of a block of the index. Under loom a block holds few words, whatever its size.
pub(super) const BLOCK: Size = unless_checked(Size::Slab, Size::Frame);

/// The space that an operation lacks. The operation drops its pin before the space is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeedsSpace {
    /// Frames in the hot log.
    Frame,
    /// An overflow bucket of the index.
    Bucket,
}

/// The result of an operation under one pin.
pub(super) type Retryable<T> = std::result::Result<T, NeedsSpace>;
