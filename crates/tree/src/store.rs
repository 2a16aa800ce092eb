//! The segment store: page file, page allocator, index and claims of one keyspace. It depends on neither the cache nor
//! the log.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use ecotone_substrate::{
    Error, Result,
    double_write::DoubleWrite,
    memory::Component,
    page::{Page, PageError, PageKind},
    storage::Block,
};
use ecotone_sys::primitive::{Mutex, RwLock};

use super::{
    cache::KeySpan,
    claims::{Claim, Claims},
    index::{Index, IndexEdit, PagePair, Segment, Snapshot},
    page_allocator::{IoPurpose, PageAllocator, PageFile},
    pinned_boundaries::PinnedBoundaries,
};

/// The segments of one keyspace.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) file: PageFile,
    pub(crate) space: PageAllocator,
    pub(crate) index: Index,
    pub(crate) claims: Claims,
    pub(crate) pinned: PinnedBoundaries,
    /// Held from the preparation of a change of the index to its installation.
    pub(crate) structure_lock: Mutex<()>,
    /// The install lock of decision 2.
    pub(crate) install: RwLock<()>,
    /// The highest production id given out (decision 5).
    pub(crate) production: AtomicU32,
    overflow_pages: AtomicU64,
    double_write: Arc<DoubleWrite>,
}

/// A segment with its key range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SegmentRange {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) segment: Segment,
}

impl SegmentRange {
    /// All of its keys.
    pub(crate) fn all(&self) -> KeySpan {
        KeySpan { lower: self.lower.clone(), upper: self.upper.clone() }
    }

    /// The segment of some consecutive base pages. `None` if its index entry would be too large.
    pub(crate) fn part(&self, positions: Range<u8>) -> Option<SegmentRange> {
        let segment = self.segment.part(&self.lower, positions.clone())?;
        let upper = self.key_span(positions.end - 1).upper;
        Some(SegmentRange { lower: self.segment.fence(&self.lower, positions.start), upper, segment })
    }

    /// The keys of each base page.
    pub(crate) fn key_spans(&self) -> impl Iterator<Item = KeySpan> {
        (0..self.segment.base_count()).map(|position| self.key_span(position))
    }

    /// The keys of the base page at a position.
    pub(crate) fn key_span(&self, position: u8) -> KeySpan {
        let fence = |position| self.segment.fence(&self.lower, position);
        let is_last = position + 1 == self.segment.base_count();
        KeySpan { lower: fence(position), upper: if is_last { self.upper.clone() } else { Some(fence(position + 1)) } }
    }

    /// Whether both have the same base pages for the same range. Overflow pages may differ.
    fn is_same(&self, other: &SegmentRange) -> bool {
        let (one, another) = (&self.segment, &other.segment);
        (&self.lower, &self.upper, one.base_pages(), &one.placement)
            == (&other.lower, &other.upper, another.base_pages(), &another.placement)
    }
}

/// The pages of a page pair as they are on disk.
#[derive(Debug)]
pub(crate) struct StoredPages {
    pub(crate) pair: PagePair,
    pub(crate) base: Block,
    pub(crate) overflow: Option<Block>,
}

/// The parsed pages of a page pair.
pub(crate) type Pages<'a> = (Page<'a>, Option<Page<'a>>);

/// Why a page is not the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageMismatch {
    /// Its checksum fails: a write is in progress, or the page is damaged.
    Torn,
    /// It is intact and of a later format version.
    Newer(u8),
    /// It is intact but not the expected page.
    Other,
}

impl Store {
    pub(crate) fn new(
        file: PageFile,
        space: PageAllocator,
        index: Index,
        production: u32,
        double_write: &Arc<DoubleWrite>,
    ) -> Self {
        let overflowing: usize = index.snapshot().ascend(&[]).map(|(_, segment)| segment.overflow_pages()).sum();
        Store {
            file,
            space,
            index,
            claims: Claims::default(),
            pinned: PinnedBoundaries::default(),
            structure_lock: Mutex::new(()),
            install: RwLock::new(()),
            production: AtomicU32::new(production),
            overflow_pages: AtomicU64::new(overflowing as u64),
            double_write: double_write.clone(),
        }
    }

    /// Number of overflow pages of all segments.
    pub(crate) fn overflow_pages(&self) -> u64 {
        self.overflow_pages.load(Ordering::Relaxed)
    }

    /// Updates the number of overflow pages after a change.
    pub(crate) fn count_overflow(&self, removed: &[Segment], change: &IndexEdit) {
        let coming: usize = change.insert.iter().map(|(_, segment)| segment.overflow_pages()).sum();
        let going: usize = removed.iter().map(Segment::overflow_pages).sum();
        self.overflow_pages.fetch_add((coming + change.attach.len()) as u64, Ordering::Relaxed);
        self.overflow_pages.fetch_sub(going as u64, Ordering::Relaxed);
    }

    /// The segment as the index has it now, if it is still the same pages for the same range.
    pub(crate) fn current(&self, at: &SegmentRange) -> Option<SegmentRange> {
        Some(self.locate(&at.lower)).filter(|now| now.is_same(at))
    }

    /// The segment that `key` belongs to.
    pub(crate) fn locate(&self, key: &[u8]) -> SegmentRange {
        let mut located = ascending(&self.index.snapshot(), key, 1);
        located.pop().expect("every key belongs to a segment")
    }

    /// Claims all base pages of a segment (tree-protocol.md, invariant 11). Returns the segment as the index has it
    /// now; `None` if one of its pages is claimed already, or if the index does not have the segment any more.
    pub(crate) fn claim_segment(&self, claim: &mut Claim<'_>, at: &SegmentRange) -> Option<SegmentRange> {
        if !claim.try_add(at.segment.base_pages()) {
            return None;
        }
        let current = self.current(at);
        if current.is_none() {
            claim.release(at.segment.base_pages());
        }
        current
    }

    /// Replaces the bytes of a page by its image from a failed batch of in-place writes, if there is one; the disk may
    /// hold neither the old nor the new page then. Must be called for every page that was read, before the page is
    /// parsed.
    pub(crate) fn amend(&self, page: u32, bytes: &mut [u8]) {
        self.double_write.amend(self.file.id(), page, bytes);
    }

    /// Reads the pages of page pairs, with many requests in flight, without parsing them.
    pub(crate) fn read(&self, pairs: &[PagePair], cause: IoPurpose) -> Result<Vec<StoredPages>> {
        let pages: Vec<u32> = pairs.iter().flat_map(|pair| pair.pages()).collect();
        let mut blocks = self.file.read_pages(&pages, Component::Frames, cause)?;
        pages.iter().zip(&mut blocks).for_each(|(page, block)| self.amend(*page, block));
        let mut blocks = blocks.into_iter();
        let mut next =
            || blocks.next().ok_or_else(|| Error::Invalid("a read gave fewer pages than were asked for".into()));
        let stored = |pair: &PagePair| {
            let base = next()?;
            let overflow = if pair.overflow == PagePair::NONE { None } else { Some(next()?) };
            Ok(StoredPages { pair: *pair, base, overflow })
        };
        pairs.iter().map(stored).collect()
    }

    /// Parses the pages of a page pair that the caller has claimed, so that only damage can cause a mismatch. The pages
    /// are checked in full: a merge needs records in order even if a page with a valid checksum has them out of order.
    pub(crate) fn claimed_pages<'a>(&self, stored: &'a StoredPages) -> Result<Pages<'a>> {
        let (base, overflow) = self.pages(stored).map_err(|(page, strange)| self.damage(page, strange))?;
        for (page, number) in std::iter::once(&base).chain(&overflow).zip(stored.pair.pages()) {
            page.check().map_err(|error| error.at(self.file.id(), number))?;
        }
        Ok((base, overflow))
    }

    /// Parses the pages of a claimed segment. Their ranges must be adjacent from its lower to its upper fence and agree
    /// with its placement.
    pub(crate) fn claimed_segment<'a>(&self, at: &SegmentRange, stored: &'a [StoredPages]) -> Result<Vec<Pages<'a>>> {
        let pages = stored.iter().map(|stored| self.claimed_pages(stored)).collect::<Result<Vec<_>>>()?;
        let mut lower = Some(at.lower.as_slice());
        for (position, ((base, _), number)) in pages.iter().zip(at.segment.base_pages()).enumerate() {
            let expected = usize::from(at.segment.position_of(&at.lower, base.lower()));
            if lower != Some(base.lower()) || expected != position {
                return Err(self.damage(number, PageMismatch::Other));
            }
            lower = base.upper();
        }
        if lower == at.upper.as_deref() { Ok(pages) } else { Err(self.damage(at.segment.page, PageMismatch::Other)) }
    }

    /// Parses the pages of a page pair. If they do not belong together, returns the number of the wrong page and the
    /// mismatch.
    pub(crate) fn pages<'a>(&self, stored: &'a StoredPages) -> std::result::Result<Pages<'a>, (u32, PageMismatch)> {
        let PagePair { page, overflow, .. } = stored.pair;
        let base = self.parse(&stored.base, page).map_err(|strange| (page, strange))?;
        if base.kind() != PageKind::Base {
            return Err((page, PageMismatch::Other));
        }
        let Some(block) = &stored.overflow else { return Ok((base, None)) };
        let second = self.parse(block, overflow).map_err(|strange| (overflow, strange))?;
        let fits = (second.lower(), second.upper()) == (base.lower(), base.upper());
        if second.kind() != PageKind::Overflow || second.related() != page || !fits {
            return Err((overflow, PageMismatch::Other));
        }
        Ok((base, Some(second)))
    }

    /// Parses one page.
    pub(crate) fn parse<'a>(&self, bytes: &'a [u8], page: u32) -> std::result::Result<Page<'a>, PageMismatch> {
        Page::parse(bytes, self.file.place(page)).map_err(|error| match error {
            PageError::Checksum => PageMismatch::Torn,
            PageError::Newer(version) => PageMismatch::Newer(version),
            PageError::Malformed(_) => PageMismatch::Other,
        })
    }

    /// The error for a mismatched page that no operation is writing.
    pub(crate) fn damage(&self, page: u32, strange: PageMismatch) -> Error {
        match strange {
            PageMismatch::Torn => self.file.corruption(page, "the checksum of the page does not match its content"),
            PageMismatch::Newer(version) => PageError::Newer(version).at(self.file.id(), page),
            PageMismatch::Other => self.file.corruption(page, "the page is not the one that the index names"),
        }
    }
}

/// At most `most` segments of a snapshot, ascending, from the one that `key` belongs to.
pub(crate) fn ascending(snapshot: &Snapshot, key: &[u8], most: usize) -> Vec<SegmentRange> {
    let mut entries = snapshot.ascend(key).take(most + 1).peekable();
    let mut located = Vec::with_capacity(most);
    while let Some((lower, segment)) = entries.next() {
        if located.len() == most {
            break;
        }
        located.push(SegmentRange { lower, upper: entries.peek().map(|(upper, _)| upper.clone()), segment });
    }
    located
}

/// At most `most` segments of a snapshot, descending, that lie wholly or partly below `end` (`None`: the end of all
/// keys). `whole` says whether the segment that begins at `end` is included.
pub(crate) fn descending(snapshot: &Snapshot, end: Option<&[u8]>, whole: bool, most: usize) -> Vec<SegmentRange> {
    let from = end.unwrap_or(&ABOVE_ALL);
    let mut upper = snapshot.after(from).map(|(upper, _)| upper);
    let mut located = Vec::with_capacity(most);
    for (lower, segment) in snapshot.descend(from) {
        if located.len() == most {
            break;
        }
        let at = SegmentRange { upper: upper.replace(lower.clone()), lower, segment };
        if whole || end != Some(at.lower.as_slice()) {
            located.push(at);
        }
    }
    located
}

/// Above every key, since none is this long.
pub(crate) const ABOVE_ALL: [u8; ecotone_substrate::limits::MAX_KEY + 1] =
    [u8::MAX; ecotone_substrate::limits::MAX_KEY + 1];
