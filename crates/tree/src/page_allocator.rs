//! The page allocator: which pages of a keyspace's page file are used, and when freed pages may be reused.
//!
//! Its state is in memory only: at open it is rebuilt from the pages that the index refers to. Page 0, the header of
//! the file, is always used.

mod bitmap;
mod header;
mod hollow;
mod page_file;
#[cfg(test)]
mod tests;
mod traffic;
mod trim;

use std::collections::BTreeMap;

use ecotone_substrate::{
    Error, Result, Seq, bug,
    limits::{MAX_PAGES, PAGE},
};
use ecotone_sys::primitive::Mutex;

use bitmap::{BLOCK, Bitmap, PIECE};
use hollow::PunchedPieces;
pub use page_file::PageFile;
pub(crate) use traffic::IoPurpose;

/// Smallest growth of a file, in pages (1 MiB). A file smaller than this doubles, so that a keyspace of few records
/// takes little space.
const SMALLEST_EXTENT: u32 = 256;
/// Largest growth beyond the missing pages, in pages (64 MiB).
const LARGEST_EXTENT: u32 = 64 * SMALLEST_EXTENT;
/// The file grows by its size divided by this.
const GROWTH: u32 = 32;

/// The allocator of the pages of one keyspace.
#[derive(Debug)]
pub struct PageAllocator {
    file: PageFile,
    state: Mutex<State>,
    /// Held while the file grows, so that `state` is never locked across I/O.
    growth: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    pages: Bitmap,
    /// Free pieces that are out of use because they may be holes in the file. Their pages count as used in `pages`.
    hollow: PunchedPieces,
    /// Pending frees: pages that become free once the log is synced beyond the sequence.
    after_sync: BTreeMap<Seq, Vec<u32>>,
    /// Number of pages in `after_sync`.
    unsynced: u32,
    /// Pages that become free once the next checkpoint is durable.
    after_checkpoint: Vec<u32>,
    /// Number of [`Hold`]s.
    holds: u32,
}

impl State {
    /// Pages that are used or wait to become free.
    fn used(&self) -> u32 {
        self.pages.total() - self.pages.free() - self.hollow.len() * PIECE
    }

    /// Takes all runs, `pages` pages in total, and returns their first pages. If that is not possible, takes none and
    /// returns how many pages are missing at least.
    fn take_all(
        &mut self,
        lengths: &(impl Iterator<Item = u32> + Clone),
        mut pages: usize,
    ) -> std::result::Result<Vec<u32>, usize> {
        let free = self.pages.free() as usize;
        if pages > free {
            return Err(pages - free);
        }
        let mut firsts = Vec::new();
        for length in lengths.clone() {
            let Some(first) = self.pages.take_run(length) else {
                self.free(firsts.into_iter().zip(lengths.clone()).flat_map(|(first, length)| first..first + length));
                return Err(pages);
            };
            firsts.push(first);
            pages -= length as usize;
        }
        Ok(firsts)
    }

    fn free(&mut self, pages: impl IntoIterator<Item = u32>) {
        for page in pages {
            assert!(self.pages.give(page), "page {page} was given back twice");
        }
    }
}

impl PageAllocator {
    /// Longest run that [`allocate_runs`](Self::allocate_runs) allocates.
    pub const LONGEST_RUN: u8 = bitmap::MAX_RUN as u8;

    /// The allocator of a file, with all pages free except the header.
    pub fn new(file: &PageFile) -> Result<PageAllocator> {
        let pages = file.file().len()? / PAGE as u64;
        let mut state = State::default();
        state.pages.grow(u32::try_from(pages).unwrap_or(MAX_PAGES).min(MAX_PAGES));
        if !state.pages.take(0) {
            return Err(file.corruption(0, "the file is shorter than its header"));
        }
        Ok(PageAllocator { file: file.clone(), state: Mutex::new(state), growth: Mutex::default() })
    }

    /// The file whose pages these are.
    pub fn file(&self) -> &PageFile {
        &self.file
    }

    /// Takes single pages, the lowest free ones. The file grows if needed; `NoSpace` if it cannot.
    pub fn allocate(&self, pages: usize) -> Result<Vec<u32>> {
        self.allocate_all(&std::iter::repeat_n(1, pages), 1, pages)
    }

    /// Takes runs of neighbouring pages, 1 to [`LONGEST_RUN`](Self::LONGEST_RUN) each, all of them or none. Returns the
    /// first page of each. The pages of a run are freed one by one like any others. The file grows if needed; `NoSpace`
    /// if it cannot.
    ///
    /// # Panics
    /// If a length is out of bounds.
    pub fn allocate_runs(&self, lengths: &[u8]) -> Result<Vec<u32>> {
        assert!(
            lengths.iter().all(|length| (1..=Self::LONGEST_RUN).contains(length)),
            "a run has 1 to {} pages",
            Self::LONGEST_RUN
        );
        let pages = lengths.iter().map(|length| usize::from(*length)).sum();
        let longest = lengths.iter().copied().max().unwrap_or(1);
        self.allocate_all(&lengths.iter().map(|length| u32::from(*length)), longest.into(), pages)
    }

    fn allocate_all(
        &self,
        lengths: &(impl Iterator<Item = u32> + Clone),
        longest: u32,
        pages: usize,
    ) -> Result<Vec<u32>> {
        if let Ok(taken) = self.state.lock().take_all(lengths, pages) {
            return Ok(taken);
        }
        let _alone = self.growth.lock();
        loop {
            // Another thread may have freed pages or grown the file meanwhile.
            let missing = match self.state.lock().take_all(lengths, pages) {
                Ok(taken) => return Ok(taken),
                Err(missing) => missing,
            };
            self.grow(longest, missing)?;
        }
    }

    /// Makes more pages available: space for a run of `run` pages, and for `missing` pages where possible. First it
    /// puts punched pieces into use again, then it extends the file. The caller holds the growth lock; `state` is never
    /// locked across I/O.
    fn grow(&self, run: u32, missing: usize) -> Result<()> {
        let (usual, least) = extents(self.total(), missing);
        match self.reserve(run, usual) {
            Err(error) if error.is_no_space() && least < usual => self.reserve(run, least),
            reserved => reserved,
        }
    }

    fn reserve(&self, run: u32, pages: u32) -> Result<()> {
        if self.reopen(run, pages)? {
            return Ok(());
        }
        let total = self.total();
        let Some(end) = total.checked_add(pages).filter(|end| *end <= MAX_PAGES) else {
            let (limit, actual) = (MAX_PAGES.into(), u64::from(total) + u64::from(pages));
            return Err(Error::Limit { what: "number of pages of a keyspace", limit, actual });
        };
        self.file.file().preallocate(offset(total), offset(end - total))?;
        self.state.lock().pages.grow(end);
        Ok(())
    }

    /// Frees pages for immediate reuse: nothing durable refers to them, or the log record that replaces them is being
    /// replayed. Fails if a page is not in use.
    pub fn free_now(&self, pages: &[u32]) -> Result<()> {
        let mut state = self.state.lock();
        let damaged = pages.iter().find(|page| **page == 0 || !state.pages.give(**page));
        damaged.map_or(Ok(()), |page| Err(self.file.corruption(*page, "a page that is not in use is given back")))
    }

    /// Frees pages that the log record at `after` replaces. They can be reused once that record is synced; see
    /// [`release`](Self::release).
    pub fn free_later(&self, pages: &[u32], after: Seq) {
        let mut state = self.state.lock();
        if bug!(FreeSpaceEarly) {
            state.free(pages.iter().copied());
        } else {
            state.after_sync.entry(after).or_default().extend(pages);
            state.unsynced += pages.len() as u32;
        }
    }

    /// Whether more pages wait for a sync of the log than the file would grow by, a 32nd of the used pages. The log
    /// should be synced then before the file grows.
    pub fn has_many_pending_frees(&self) -> bool {
        let state = self.state.lock();
        state.holds == 0 && state.unsynced > (state.used() / GROWTH).max(SMALLEST_EXTENT)
    }

    /// Frees the pages whose log records lie below `synced` and so survive a power loss. During a [`hold`](Self::hold)
    /// this does nothing; a later call frees them.
    pub fn release(&self, synced: Seq) {
        let mut state = self.state.lock();
        if state.holds > 0 {
            return;
        }
        let waiting = state.after_sync.split_off(&synced);
        let released = std::mem::replace(&mut state.after_sync, waiting);
        state.unsynced -= released.values().map(Vec::len).sum::<usize>() as u32;
        state.free(released.into_values().flatten());
    }

    /// Prevents the reuse of pages passed to [`free_later`](Self::free_later) until the hold is dropped.
    ///
    /// A checkpoint holds from its snapshot until its nodes have their pages. Otherwise a page that a later record
    /// frees could become a node of the checkpoint whose index, as of the snapshot, still names it as a segment's.
    pub fn hold(&self) -> Hold<'_> {
        self.state.lock().holds += 1;
        Hold { space: self }
    }

    /// Frees pages that the last durable checkpoint may refer to and the one just written does not.
    pub fn free_after_checkpoint(&self, pages: Vec<u32>) {
        self.state.lock().after_checkpoint.extend(pages);
    }

    /// Notes that the last written checkpoint is durable and the one before is gone.
    pub fn checkpoint_is_durable(&self) {
        let mut state = self.state.lock();
        let released = std::mem::take(&mut state.after_checkpoint);
        state.free(released);
    }

    /// Marks a page as used while the structure is loaded or replayed. Two users of one page, and one beyond the end of
    /// the file, are corruption.
    pub fn mark_used(&self, page: u32) -> Result<()> {
        let mut state = self.state.lock();
        if state.pages.take(page) {
            return Ok(());
        }
        let beyond = page >= state.pages.total();
        let what = if beyond { "a page beyond the end of the file is in use" } else { "a page is in use twice" };
        Err(self.file.corruption(page, what))
    }

    /// Whether a page is used or waits to become free.
    pub fn is_used(&self, page: u32) -> bool {
        let state = self.state.lock();
        state.pages.is_used(page) && !state.hollow.contains(page / PIECE)
    }

    /// Pages that are used or wait to become free.
    pub fn used(&self) -> u32 {
        self.state.lock().used()
    }

    /// Free pages of the file that are known to take no disk space.
    pub fn punched(&self) -> u32 {
        let state = self.state.lock();
        (state.hollow.len() - state.hollow.present()) * PIECE
    }

    /// Pages of the file.
    pub fn total(&self) -> u32 {
        self.state.lock().pages.total()
    }

    /// Bytes of memory, about one for eight pages of the file. They are outside of the memory budget.
    pub fn bytes(&self) -> usize {
        self.state.lock().pages.bytes()
    }
}

/// See [`PageAllocator::hold`].
#[derive(Debug)]
#[must_use = "a hold ends when it is dropped"]
pub struct Hold<'a> {
    space: &'a PageAllocator,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.space.state.lock().holds -= 1;
    }
}

/// By how many pages a file of `total` pages that lacks `missing` grows: the usual growth, and the least that suffices.
/// The file ends at whole blocks, so that runs fit everywhere.
fn extents(total: u32, missing: usize) -> (u32, u32) {
    let missing = u32::try_from(missing).unwrap_or(u32::MAX);
    let extent = |pages: u32| {
        let rest = total.next_multiple_of(BLOCK) - total;
        let beyond = pages.saturating_sub(rest).checked_next_multiple_of(BLOCK).unwrap_or(MAX_PAGES);
        beyond.saturating_add(rest)
    };
    let usual = (total / GROWTH).clamp(SMALLEST_EXTENT.min(total), LARGEST_EXTENT);
    let (least, usual) = (extent(missing), extent(usual));
    (usual.min(MAX_PAGES - total).max(least), least)
}

/// Offset of a page in the file, or the length of so many pages, in bytes.
fn offset(pages: u32) -> u64 {
    u64::from(pages) * PAGE as u64
}
