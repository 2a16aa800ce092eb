//! What the index knows about a segment.

use ecotone_substrate::codec::{Malformed, Reader, Writer};

/// Most base pages of a segment.
pub const MOST_PAGES: u8 = 16;
/// Bytes that the fences of a directory may take in an entry, their lengths included: with the longest key the entry must fit a node.
pub const MOST_FENCE_BYTES: usize = 640;

/// One base page.
const PAGE_ONLY: u8 = 1;
/// One base page with an overflow page.
const WITH_OVERFLOW: u8 = 2;

/// A part of the key space and the pages that hold its records. Its lower fence is the key of its entry in the index, its upper fence
/// the key of the next entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Number of the base page.
    pub page: u32,
    /// Number of the overflow page, or [`Segment::NONE`].
    pub overflow: u32,
}

impl Segment {
    /// The page number that means "there is none".
    pub const NONE: u32 = u32::MAX;

    /// A segment of one base page.
    pub fn new(page: u32) -> Segment {
        Segment { page, overflow: Segment::NONE }
    }

    /// Its pages.
    pub fn pages(self) -> impl Iterator<Item = u32> {
        std::iter::once(self.page).chain((self.overflow != Segment::NONE).then_some(self.overflow))
    }

    /// Appends the value of its entry in the index, or in a log record.
    pub fn encode(self, w: &mut Writer) {
        match self.overflow {
            Segment::NONE => w.u8(PAGE_ONLY).u32(self.page),
            overflow => w.u8(WITH_OVERFLOW).u32(self.page).u32(overflow),
        };
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Segment, Malformed> {
        match r.u8()? {
            PAGE_ONLY => Ok(Segment::new(r.u32()?)),
            WITH_OVERFLOW => Ok(Segment { page: r.u32()?, overflow: r.u32()? }),
            _ => r.fail("the kind of a segment is not known"),
        }
    }

    /// Bytes that [`encode`](Self::encode) appends.
    pub(super) fn encoded_len(self) -> usize {
        if self.overflow == Segment::NONE { 5 } else { 9 }
    }
}
