//! Which pages of a keyspace's page file are used, and when those given back may be used again.
//!
//! Space is kept in memory only: at open it is rebuilt from what the index refers to. Page 0, the header of the file, is always used.

mod bitmap;
mod header;
mod page_file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bitmap::Bitmap;
use ecotone_substrate::{
    Error, Result, Seq, bug,
    limits::{MAX_PAGES, PAGE},
};
use ecotone_sys::primitive::Mutex;
pub use page_file::PageFile;

/// Smallest growth of the file, in pages (1 MiB); all growth is a multiple of it.
const SMALLEST_EXTENT: u32 = 256;
/// Largest growth that is not asked for, in pages (64 MiB).
const LARGEST_EXTENT: u32 = 64 * SMALLEST_EXTENT;
/// The file grows by this part of itself.
const GROWTH: u32 = 8;

/// The allocator of the pages of one keyspace.
#[derive(Debug)]
pub struct Space {
    file: PageFile,
    state: Mutex<State>,
    /// Held while the file grows, so that `state` is never held across I/O.
    growth: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    pages: Bitmap,
    /// Pages that are free once the log is synced beyond the sequence.
    after_sync: BTreeMap<Seq, Vec<u32>>,
    /// Pages that are free once the next checkpoint is durable.
    after_checkpoint: Vec<u32>,
    /// Number of [`Hold`]s.
    holds: u32,
}

impl State {
    fn free(&mut self, pages: impl IntoIterator<Item = u32>) {
        for page in pages {
            assert!(self.pages.give(page), "page {page} was given back twice");
        }
    }
}

impl Space {
    /// The space of a file, all of it free but the header.
    pub fn new(file: &PageFile) -> Result<Space> {
        let pages = file.file().len()? / PAGE as u64;
        let mut state = State::default();
        state.pages.grow(u32::try_from(pages).unwrap_or(MAX_PAGES).min(MAX_PAGES));
        if !state.pages.take(0) {
            return Err(file.corruption(0, "the file is shorter than its header"));
        }
        Ok(Space { file: file.clone(), state: Mutex::new(state), growth: Mutex::default() })
    }

    /// The file whose pages these are.
    pub fn file(&self) -> &PageFile {
        &self.file
    }

    /// Takes pages: a run of neighbours if there is one, the lowest first. The file grows if need be; `NoSpace` if it cannot.
    pub fn allocate(&self, pages: usize) -> Result<Vec<u32>> {
        loop {
            if let Some(taken) = self.state.lock().pages.take_many(pages) {
                return Ok(taken);
            }
            self.grow(pages)?;
        }
    }

    /// Makes the file longer until `wanted` pages are free.
    fn grow(&self, wanted: usize) -> Result<()> {
        let _alone = self.growth.lock();
        let (total, free) = {
            let state = self.state.lock();
            (state.pages.total(), state.pages.free() as usize)
        };
        if wanted <= free {
            return Ok(());
        }
        let (usual, least) = extents(total, wanted - free)?;
        let grown = match self.preallocate(total + usual) {
            Err(error) if error.is_no_space() && least < usual => self.preallocate(total + least)?,
            other => other?,
        };
        self.state.lock().pages.grow(grown);
        Ok(())
    }

    fn preallocate(&self, total: u32) -> Result<u32> {
        self.file.file().preallocate(u64::from(total) * PAGE as u64)?;
        Ok(total)
    }

    /// Gives pages back for use at once: nothing durable refers to them, or the log record that replaces them is being replayed.
    /// Fails if one is not in use.
    pub fn free_now(&self, pages: &[u32]) -> Result<()> {
        let mut state = self.state.lock();
        let damaged = pages.iter().find(|page| **page == 0 || !state.pages.give(**page));
        damaged.map_or(Ok(()), |page| Err(self.file.corruption(*page, "a page that is not in use is given back")))
    }

    /// Gives pages back that are replaced by the log record at `after`: they are free once that record is synced, see
    /// [`release`](Self::release).
    pub fn free_later(&self, pages: &[u32], after: Seq) {
        let mut state = self.state.lock();
        if bug!(FreeSpaceEarly) {
            state.free(pages.iter().copied());
        } else {
            state.after_sync.entry(after).or_default().extend(pages);
        }
    }

    /// Every record below `synced` survives power loss. During a [`hold`](Self::hold) this does nothing; a later call makes up for it.
    pub fn release(&self, synced: Seq) {
        let mut state = self.state.lock();
        if state.holds > 0 {
            return;
        }
        let waiting = state.after_sync.split_off(&synced);
        let released = std::mem::replace(&mut state.after_sync, waiting);
        state.free(released.into_values().flatten());
    }

    /// Keeps what [`free_later`](Self::free_later) gave back from being used, for as long as the hold lives.
    ///
    /// A checkpoint holds from its snapshot until its nodes have their pages. Otherwise a page that a later record frees could become a node of the
    /// checkpoint whose index, as of the snapshot, still names it as a segment's.
    pub fn hold(&self) -> Hold<'_> {
        self.state.lock().holds += 1;
        Hold { space: self }
    }

    /// Gives pages back that the last durable checkpoint may refer to and the one just written does not.
    pub fn free_after_checkpoint(&self, pages: Vec<u32>) {
        self.state.lock().after_checkpoint.extend(pages);
    }

    /// The checkpoint written last is durable and the one before is gone.
    pub fn checkpoint_is_durable(&self) {
        let mut state = self.state.lock();
        let released = std::mem::take(&mut state.after_checkpoint);
        state.free(released);
    }

    /// Marks a page as used while the structure is loaded or replayed. Two users of one page, and one beyond the end of the file, are
    /// corruption.
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
        self.state.lock().pages.is_used(page)
    }

    /// Pages that are used or wait to become free.
    pub fn used(&self) -> u32 {
        let state = self.state.lock();
        state.pages.total() - state.pages.free()
    }

    /// Pages of the file.
    pub fn total(&self) -> u32 {
        self.state.lock().pages.total()
    }

    /// Bytes of memory, about one for eight pages of the file; outside of the budget.
    pub fn bytes(&self) -> usize {
        self.state.lock().pages.bytes()
    }
}

/// See [`Space::hold`].
#[derive(Debug)]
#[must_use = "a hold ends when it is dropped"]
pub struct Hold<'a> {
    space: &'a Space,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.space.state.lock().holds -= 1;
    }
}

/// By how many pages a file of `total` pages that lacks `missing` grows: what is usual, and the least that helps.
fn extents(total: u32, missing: usize) -> Result<(u32, u32)> {
    let room = MAX_PAGES - total;
    let Some(missing) = u32::try_from(missing).ok().filter(|missing| *missing <= room) else {
        let (limit, actual) = (MAX_PAGES.into(), u64::from(total) + missing as u64);
        return Err(Error::Limit { what: "number of pages of a keyspace", limit, actual });
    };
    let extent = |pages: u32| pages.checked_next_multiple_of(SMALLEST_EXTENT).unwrap_or(room).min(room);
    let (least, usual) = (extent(missing), extent((total / GROWTH).clamp(SMALLEST_EXTENT, LARGEST_EXTENT)));
    Ok((usual.max(least), least))
}
