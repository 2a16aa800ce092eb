//! The segment store: page file, space, index, claims. It knows neither the cache nor the log.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ecotone_substrate::{
    Error, Result,
    double_write::DoubleWrite,
    memory::Component,
    page::{Page, PageError, PageKind},
    storage::Block,
};
use parking_lot::{Mutex, RwLock};

use super::{
    claims::Claims,
    index::{Change, Index, Segment, Snapshot},
    space::{Cause, PageFile, Space},
};

/// The segments of one keyspace.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) file: PageFile,
    pub(crate) space: Space,
    pub(crate) index: Index,
    pub(crate) claims: Claims,
    /// Held from the preparation of a change of the index to its installation.
    pub(crate) structure: Mutex<()>,
    /// The install lock of decision 2.
    pub(crate) install: RwLock<()>,
    overflow_pages: AtomicU64,
    double_write: Arc<DoubleWrite>,
}

/// A segment with its place in the key space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) segment: Segment,
}

/// The pages of a segment as they are on disk.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) at: Located,
    pub(crate) base: Block,
    pub(crate) overflow: Option<Block>,
}

/// Why a page is not the one that was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strange {
    /// Its checksum fails: torn by a write that goes on, or damaged.
    Torn,
    /// It is sound and of a later version.
    Newer(u8),
    /// It is sound and holds something else.
    Other,
}

impl Store {
    pub(crate) fn new(file: PageFile, space: Space, index: Index, double_write: &Arc<DoubleWrite>) -> Self {
        let overflowing = index.snapshot().ascend(&[]).filter(|(_, segment)| segment.overflow != Segment::NONE).count();
        Store {
            file,
            space,
            index,
            claims: Claims::default(),
            structure: Mutex::new(()),
            install: RwLock::new(()),
            overflow_pages: AtomicU64::new(overflowing as u64),
            double_write: double_write.clone(),
        }
    }

    /// Segments that have an overflow page.
    pub(crate) fn overflow_pages(&self) -> u64 {
        self.overflow_pages.load(Ordering::Relaxed)
    }

    /// Counts the overflow pages that a change brings and takes.
    pub(crate) fn count_overflow(&self, removed: &[Segment], change: &Change) {
        let overflowing = |segment: &Segment| segment.overflow != Segment::NONE;
        let coming = change.insert.iter().filter(|(_, segment)| overflowing(segment)).count() as u64;
        let going = removed.iter().filter(|segment| overflowing(segment)).count() as u64;
        self.overflow_pages.fetch_add(coming, Ordering::Relaxed);
        self.overflow_pages.fetch_sub(going, Ordering::Relaxed);
    }

    /// Whether the index maps `at.lower` to `at.segment` now.
    pub(crate) fn is_current(&self, at: &Located) -> bool {
        self.index.snapshot().get(&at.lower) == Some(at.segment)
    }

    /// The segment that `key` belongs to.
    pub(crate) fn locate(&self, key: &[u8]) -> Located {
        let mut located = ascending(&self.index.snapshot(), key, 1);
        located.pop().expect("every key belongs to a segment")
    }

    /// To be done with every page that was read, before a look at it: after a failed write in place the disk is not to be believed.
    pub(crate) fn amend(&self, page: u32, bytes: &mut [u8]) {
        self.double_write.amend(self.file.id(), page, bytes);
    }

    /// Reads the pages of segments, many requests in flight, without looking at them.
    pub(crate) fn read(&self, segments: Vec<Located>, cause: Cause) -> Result<Vec<Stored>> {
        let pages: Vec<u32> = segments.iter().flat_map(|at| at.segment.pages()).collect();
        let mut blocks = self.file.read_pages(&pages, Component::Frames, cause)?;
        pages.iter().zip(&mut blocks).for_each(|(page, block)| self.amend(*page, block));
        let mut blocks = blocks.into_iter();
        let mut next = || blocks.next().ok_or_else(|| Error::Invalid("a read gave fewer pages than were asked for".into()));
        let stored = |at: Located| {
            let base = next()?;
            let overflow = if at.segment.overflow == Segment::NONE { None } else { Some(next()?) };
            Ok(Stored { at, base, overflow })
        };
        segments.into_iter().map(stored).collect()
    }

    /// The pages of a segment that the caller has claimed, so that nothing but damage can make them strange. They are checked in full: what is merged must be
    /// in order, whatever a page with a right checksum says.
    pub(crate) fn claimed_pages<'a>(&self, stored: &'a Stored) -> Result<(Page<'a>, Option<Page<'a>>)> {
        let (base, overflow) = self.pages(stored).map_err(|(page, strange)| self.damage(page, strange))?;
        for (page, number) in std::iter::once(&base).chain(&overflow).zip(stored.at.segment.pages()) {
            page.check().map_err(|error| error.at(self.file.id(), number))?;
        }
        Ok((base, overflow))
    }

    /// The pages of a segment, if they are what the index says: the page number that is not, otherwise.
    pub(crate) fn pages<'a>(&self, stored: &'a Stored) -> std::result::Result<(Page<'a>, Option<Page<'a>>), (u32, Strange)> {
        let Segment { page, overflow } = stored.at.segment;
        let base = self.parse(&stored.base, page).map_err(|strange| (page, strange))?;
        let fits = |found: &Page<'_>| found.lower() == stored.at.lower && found.upper() == stored.at.upper.as_deref();
        if base.kind() != PageKind::Base || !fits(&base) {
            return Err((page, Strange::Other));
        }
        let Some(block) = &stored.overflow else { return Ok((base, None)) };
        let second = self.parse(block, overflow).map_err(|strange| (overflow, strange))?;
        if second.kind() != PageKind::Overflow || second.related() != page || !fits(&second) {
            return Err((overflow, Strange::Other));
        }
        Ok((base, Some(second)))
    }

    /// Parses one page.
    pub(crate) fn parse<'a>(&self, bytes: &'a [u8], page: u32) -> std::result::Result<Page<'a>, Strange> {
        Page::parse(bytes, self.file.place(page)).map_err(|error| match error {
            PageError::Checksum => Strange::Torn,
            PageError::Newer(version) => Strange::Newer(version),
            PageError::Malformed(_) => Strange::Other,
        })
    }

    /// The error for a page that is strange although nobody changes it.
    pub(crate) fn damage(&self, page: u32, strange: Strange) -> Error {
        match strange {
            Strange::Torn => self.file.corruption(page, "the checksum of the page does not match its content"),
            Strange::Newer(version) => PageError::Newer(version).at(self.file.id(), page),
            Strange::Other => self.file.corruption(page, "the page is not the one that the index names"),
        }
    }
}

/// The segments of a snapshot from the one that `key` belongs to, ascending, at most `most`.
pub(crate) fn ascending(snapshot: &Snapshot, key: &[u8], most: usize) -> Vec<Located> {
    let mut entries = snapshot.ascend(key).take(most + 1).peekable();
    let mut located = Vec::with_capacity(most);
    while let Some((lower, segment)) = entries.next() {
        if located.len() == most {
            break;
        }
        located.push(Located { lower, upper: entries.peek().map(|(upper, _)| upper.clone()), segment });
    }
    located
}

/// The segments of a snapshot that lie below `end` (`None`: the end of all keys) wholly or in part, descending, at most `most`. `whole` says whether the
/// segment that begins at `end` counts too.
pub(crate) fn descending(snapshot: &Snapshot, end: Option<&[u8]>, whole: bool, most: usize) -> Vec<Located> {
    let from = end.unwrap_or(&ABOVE_ALL);
    let mut upper = snapshot.after(from).map(|(upper, _)| upper);
    let mut located = Vec::with_capacity(most);
    for (lower, segment) in snapshot.descend(from) {
        if located.len() == most {
            break;
        }
        let at = Located { upper: upper.replace(lower.clone()), lower, segment };
        if whole || end != Some(at.lower.as_slice()) {
            located.push(at);
        }
    }
    located
}

/// Above every key, since none is this long.
const ABOVE_ALL: [u8; ecotone_substrate::limits::MAX_KEY + 1] = [u8::MAX; ecotone_substrate::limits::MAX_KEY + 1];
