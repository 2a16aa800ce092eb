//! An iterator over the pages of a segment, directly from its encoded index entry.

use ecotone_substrate::codec::{Malformed, Reader};

use super::{
    fences,
    placement::{Placement, skip},
    segment::{LINE, LIST, LISTED, PagePair, SINGLE, SINGLE_WITH_OVERFLOW, pair},
};

/// Iterates over the pages of a segment without building a `Segment`: every scan runs this.
#[derive(Debug)]
pub struct SegmentPages<'a> {
    value: &'a [u8],
    page: u32,
    pages: u8,
    /// Overflow pages by position, encoded.
    overflow: &'a [[u8; LISTED]],
    fences: Fences<'a>,
    position: u8,
}

/// The lower fences of the pages after the first one.
#[derive(Debug)]
enum Fences<'a> {
    /// Computed by this placement, which is no directory.
    Computed(Placement),
    /// Listed in a directory, from the next one on; all begin with so many bytes of the segment's lower fence.
    Listed(usize, Reader<'a>),
}

impl<'a> SegmentPages<'a> {
    /// Creates the iterator from the value of an entry, which was encoded here or verified.
    pub(super) fn new(value: &'a [u8]) -> SegmentPages<'a> {
        SegmentPages::decode(value).expect("a node was built or verified")
    }

    fn decode(value: &'a [u8]) -> Result<SegmentPages<'a>, Malformed> {
        let mut r = Reader::new(value);
        let (kind, page) = (r.u8()?, r.u32()?);
        let walk = SegmentPages {
            value,
            page,
            pages: 1,
            overflow: &[],
            fences: Fences::Computed(Placement::Single),
            position: 0,
        };
        if matches!(kind, SINGLE | SINGLE_WITH_OVERFLOW) {
            return Ok(walk);
        }
        let listed = if kind & LIST == 0 { 0 } else { usize::from(r.u8()?) };
        let (overflow, _) = r.bytes(listed * LISTED)?.as_chunks();
        let pages = r.u8()?;
        let fences = match kind & !LIST {
            LINE => Fences::Computed(Placement::decode_line(&mut r)?),
            _ => Fences::Listed(usize::from(skip(&mut r)?), r),
        };
        Ok(SegmentPages { pages, overflow, fences, ..walk })
    }

    /// Moves to the page of `key`, in a segment that begins at `lower`; `fence` is as [`next`](Self::next) left it, or
    /// `lower`.
    pub fn seek(&mut self, lower: &[u8], key: &[u8], fence: &mut Vec<u8>) {
        let position = (pair(lower, &[], self.value, key).page - self.page) as u8;
        if matches!(self.fences, Fences::Computed(_)) {
            self.position = position;
        }
        while self.position < position {
            self.next(lower, fence);
        }
    }

    /// The next page of a segment that begins at `lower`. `fence` holds the lower fence of the previous page, and is
    /// set to that of this page.
    pub fn next(&mut self, lower: &[u8], fence: &mut Vec<u8>) -> Option<PagePair> {
        let position = self.position;
        if position == self.pages {
            return None;
        }
        self.position += 1;
        match &mut self.fences {
            _ if position == 0 => lower.clone_into(fence),
            Fences::Computed(placement) => *fence = placement.fence(lower, position, self.pages),
            Fences::Listed(skip, r) => {
                let (shared, rest) = fences::next(r).expect("a node was built or verified");
                fence.truncate(*skip + shared);
                fence.extend_from_slice(rest);
            }
        }
        Some(PagePair {
            segment: self.page,
            page: self.page + u32::from(position),
            overflow: self.overflow_of(position),
        })
    }

    fn overflow_of(&self, position: u8) -> u32 {
        if let [SINGLE_WITH_OVERFLOW, _, _, _, _, page @ ..] = self.value
            && let Ok(page) = page.try_into()
        {
            return u32::from_le_bytes(page);
        }
        let listed = self.overflow.iter().find(|listed| listed[0] == position);
        listed.map_or(PagePair::NONE, |[_, page @ ..]| u32::from_le_bytes(*page))
    }
}

#[cfg(test)]
mod tests {
    use ecotone_substrate::{codec::Writer, model::Line};

    use super::{
        super::{Placement, Segment},
        *,
    };

    fn walked(segment: &Segment, lower: &[u8], from: Option<&[u8]>) -> Vec<(PagePair, Vec<u8>)> {
        let mut bytes = Writer::new();
        segment.encode(&mut bytes);
        let (bytes, mut fence) = (bytes.finish(), lower.to_vec());
        let mut walk = SegmentPages::new(&bytes);
        if let Some(key) = from {
            walk.seek(lower, key, &mut fence);
        }
        std::iter::from_fn(|| walk.next(lower, &mut fence).map(|pair| (pair, fence.clone()))).collect()
    }

    #[test]
    fn a_walk_gives_what_the_segment_has() {
        let fences = ["kb", "kbx", "kd", "km"].map(|fence| fence.as_bytes().to_vec());
        let line = Placement::Line { skip: 1, line: Line::new(1e-18, 0.0).unwrap() };
        let mut segments = [
            Segment::new(40),
            Segment::placed(40, 5, Placement::directory(b"k", fences)),
            Segment::placed(40, 8, line),
        ];
        for overflowing in [false, true] {
            for segment in &mut segments {
                assert!(!overflowing || segment.attach(40 + u32::from(segment.base_count()) - 1, 7));
                let whole = |position: u8| (segment.page_pair(position), segment.fence(b"k", position));
                let expected: Vec<_> = (0..segment.base_count()).map(whole).collect();
                assert_eq!(walked(segment, b"k", None), expected);
                for key in [&b"k"[..], b"ka", b"kb", b"kbz", b"kc", b"kz"] {
                    let first = usize::from(segment.position_of(b"k", key));
                    assert_eq!(walked(segment, b"k", Some(key)), expected[first..], "from {key:?}");
                }
            }
        }
    }
}
