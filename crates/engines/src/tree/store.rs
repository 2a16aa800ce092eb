//! The segment store: page file, space, index, claims. It knows neither the cache nor the log.

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
    cache::Stretch,
    claims::Claims,
    index::{Change, Home, Index, Segment, Snapshot},
    space::{Cause, PageFile, Space},
    walls::Walls,
};

/// The segments of one keyspace.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) file: PageFile,
    pub(crate) space: Space,
    pub(crate) index: Index,
    pub(crate) claims: Claims,
    pub(crate) walls: Walls,
    /// Held from the preparation of a change of the index to its installation.
    pub(crate) structure: Mutex<()>,
    /// The install lock of decision 2.
    pub(crate) install: RwLock<()>,
    /// The highest production id given out (decision 5).
    pub(crate) production: AtomicU32,
    overflow_pages: AtomicU64,
    double_write: Arc<DoubleWrite>,
}

/// A segment with its place in the key space.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) segment: Segment,
}

impl Located {
    /// All of its keys.
    pub(crate) fn all(&self) -> Stretch {
        Stretch { lower: self.lower.clone(), upper: self.upper.clone() }
    }

    /// Some of its base pages, which follow each other. None if their entry would be too large.
    pub(crate) fn part(&self, positions: Range<u8>) -> Option<Located> {
        let segment = self.segment.part(&self.lower, positions.clone())?;
        let upper = self.stretch(positions.end - 1).upper;
        Some(Located { lower: self.segment.fence(&self.lower, positions.start), upper, segment })
    }

    /// The keys of each base page.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch> {
        (0..self.segment.base_count()).map(|position| self.stretch(position))
    }

    /// The keys of the base page at a position.
    pub(crate) fn stretch(&self, position: u8) -> Stretch {
        let fence = |position| self.segment.fence(&self.lower, position);
        let is_last = position + 1 == self.segment.base_count();
        Stretch { lower: fence(position), upper: if is_last { self.upper.clone() } else { Some(fence(position + 1)) } }
    }

    /// Whether both are the same pages for the same range. Overflow pages may have come meanwhile.
    fn is_same(&self, other: &Located) -> bool {
        let (one, another) = (&self.segment, &other.segment);
        (&self.lower, &self.upper, one.base_pages(), &one.placement)
            == (&other.lower, &other.upper, another.base_pages(), &another.placement)
    }
}

/// A home's pages as they are on disk.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) home: Home,
    pub(crate) base: Block,
    pub(crate) overflow: Option<Block>,
}

/// A home's pages, looked at.
pub(crate) type Pages<'a> = (Page<'a>, Option<Page<'a>>);

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
    pub(crate) fn new(
        file: PageFile,
        space: Space,
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
            walls: Walls::default(),
            structure: Mutex::new(()),
            install: RwLock::new(()),
            production: AtomicU32::new(production),
            overflow_pages: AtomicU64::new(overflowing as u64),
            double_write: double_write.clone(),
        }
    }

    /// Overflow pages of all segments.
    pub(crate) fn overflow_pages(&self) -> u64 {
        self.overflow_pages.load(Ordering::Relaxed)
    }

    /// Counts the overflow pages that a change brings and takes.
    pub(crate) fn count_overflow(&self, removed: &[Segment], change: &Change) {
        let coming: usize = change.insert.iter().map(|(_, segment)| segment.overflow_pages()).sum();
        let going: usize = removed.iter().map(Segment::overflow_pages).sum();
        self.overflow_pages.fetch_add((coming + change.attach.len()) as u64, Ordering::Relaxed);
        self.overflow_pages.fetch_sub(going as u64, Ordering::Relaxed);
    }

    /// The segment as the index has it now, if it is still the same pages for the same range.
    pub(crate) fn current(&self, at: &Located) -> Option<Located> {
        Some(self.locate(&at.lower)).filter(|now| now.is_same(at))
    }

    /// The segment that `key` belongs to.
    pub(crate) fn locate(&self, key: &[u8]) -> Located {
        let mut located = ascending(&self.index.snapshot(), key, 1);
        located.pop().expect("every key belongs to a segment")
    }

    /// To be done with every page that was read, before a look at it: after a failed write in place the disk is not to
    /// be believed.
    pub(crate) fn amend(&self, page: u32, bytes: &mut [u8]) {
        self.double_write.amend(self.file.id(), page, bytes);
    }

    /// Reads the pages of homes, many requests in flight, without looking at them.
    pub(crate) fn read(&self, homes: &[Home], cause: Cause) -> Result<Vec<Stored>> {
        let pages: Vec<u32> = homes.iter().flat_map(|home| home.pages()).collect();
        let mut blocks = self.file.read_pages(&pages, Component::Frames, cause)?;
        pages.iter().zip(&mut blocks).for_each(|(page, block)| self.amend(*page, block));
        let mut blocks = blocks.into_iter();
        let mut next =
            || blocks.next().ok_or_else(|| Error::Invalid("a read gave fewer pages than were asked for".into()));
        let stored = |home: &Home| {
            let base = next()?;
            let overflow = if home.overflow == Home::NONE { None } else { Some(next()?) };
            Ok(Stored { home: *home, base, overflow })
        };
        homes.iter().map(stored).collect()
    }

    /// The pages of a home that the caller has claimed, so that nothing but damage can make them strange. They are
    /// checked in full: what is merged must be in order, whatever a page with a right checksum says.
    pub(crate) fn claimed_pages<'a>(&self, stored: &'a Stored) -> Result<Pages<'a>> {
        let (base, overflow) = self.pages(stored).map_err(|(page, strange)| self.damage(page, strange))?;
        for (page, number) in std::iter::once(&base).chain(&overflow).zip(stored.home.pages()) {
            page.check().map_err(|error| error.at(self.file.id(), number))?;
        }
        Ok((base, overflow))
    }

    /// The pages of a claimed segment, which must follow each other from its lower to its upper fence and be the ones
    /// that its placement names.
    pub(crate) fn claimed_segment<'a>(&self, at: &Located, stored: &'a [Stored]) -> Result<Vec<Pages<'a>>> {
        let pages = stored.iter().map(|stored| self.claimed_pages(stored)).collect::<Result<Vec<_>>>()?;
        let mut lower = Some(at.lower.as_slice());
        for (position, ((base, _), number)) in pages.iter().zip(at.segment.base_pages()).enumerate() {
            let expected = usize::from(at.segment.position_of(&at.lower, base.lower()));
            if lower != Some(base.lower()) || expected != position {
                return Err(self.damage(number, Strange::Other));
            }
            lower = base.upper();
        }
        if lower == at.upper.as_deref() { Ok(pages) } else { Err(self.damage(at.segment.page, Strange::Other)) }
    }

    /// The pages of a home, if they belong together: the page number that is not what it should be, otherwise.
    pub(crate) fn pages<'a>(&self, stored: &'a Stored) -> std::result::Result<Pages<'a>, (u32, Strange)> {
        let Home { page, overflow, .. } = stored.home;
        let base = self.parse(&stored.base, page).map_err(|strange| (page, strange))?;
        if base.kind() != PageKind::Base {
            return Err((page, Strange::Other));
        }
        let Some(block) = &stored.overflow else { return Ok((base, None)) };
        let second = self.parse(block, overflow).map_err(|strange| (overflow, strange))?;
        let fits = (second.lower(), second.upper()) == (base.lower(), base.upper());
        if second.kind() != PageKind::Overflow || second.related() != page || !fits {
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

/// The segments of a snapshot that lie below `end` (`None`: the end of all keys) wholly or in part, descending, at most
/// `most`. `whole` says whether the segment that begins at `end` counts too.
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
pub(crate) const ABOVE_ALL: [u8; ecotone_substrate::limits::MAX_KEY + 1] =
    [u8::MAX; ecotone_substrate::limits::MAX_KEY + 1];
