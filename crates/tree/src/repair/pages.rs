//! Reads the pages of a file that may be damaged. Nothing is written.

use std::sync::Arc;

use ecotone_engine::repair::SalvageSource;
use ecotone_substrate::{
    Result,
    codec::is_zero,
    double_write::SavedPages,
    limits::{MAX_PAGES, PAGE},
    memory::{Component, Memory},
    page::{Page, PageAddress, PageError},
    storage::{Access, Block, Completion, File, FileId, Op, Queue, Request, Storage},
};
use ecotone_sys::chunk::Size;

/// Requests in flight while all pages are read, and the pages of each.
const DEPTH: usize = 16;
const RUN: u32 = 16;

/// The state of a page.
pub(super) enum PageVerdict<'a> {
    /// Checksum and content are valid.
    Whole(Page<'a>),
    /// Zeros: never written.
    Blank,
    /// Anything else, with the page if its header can be parsed.
    Damaged(Option<Page<'a>>),
}

/// A callback that gets the number of a page, and its bytes if they could be read.
type OnPage<'a> = dyn FnMut(u32, Option<&mut [u8]>) -> Result<()> + 'a;

/// A page file.
#[derive(Debug)]
pub(super) struct Pages {
    storage: Arc<dyn Storage>,
    memory: Arc<Memory>,
    saved: Option<Arc<SavedPages>>,
    file: Arc<dyn File>,
    /// Pages of the file. A partial page at the end does not count.
    count: u32,
}

impl Pages {
    pub(super) fn open(source: &SalvageSource, keyspace: u32) -> Result<Self> {
        let SalvageSource { storage, memory, saved, .. } = source.clone();
        let file = storage.open(FileId::Pages(keyspace), Access::Direct)?;
        let count = u32::try_from(file.len()? / PAGE as u64).unwrap_or(MAX_PAGES).min(MAX_PAGES);
        Ok(Pages { storage, memory, saved, file, count })
    }

    /// Judges the bytes that were read for a page. A page torn by the last batch of in-place writes is restored first.
    pub(super) fn look<'a>(&self, number: u32, bytes: &'a mut [u8]) -> Result<PageVerdict<'a>> {
        let place = PageAddress { file: self.file.id().identity(), page: number };
        if matches!(Page::parse(bytes, place), Err(PageError::Checksum)) {
            if is_zero(bytes) {
                return Ok(PageVerdict::Blank);
            }
            if !self.saved.as_ref().is_some_and(|saved| saved.restore(place, bytes)) {
                return Ok(PageVerdict::Damaged(Page::reparse(bytes).ok()));
            }
        }
        match Page::parse(bytes, place) {
            Ok(page) if page.check().is_ok() => Ok(PageVerdict::Whole(page)),
            Err(newer @ PageError::Newer(_)) => Err(newer.at(self.file.id(), number)),
            _ => Ok(PageVerdict::Damaged(None)),
        }
    }

    /// Calls `on_page` for every page except the file's header, in any order, with `None` for a page that cannot be
    /// read.
    pub(super) fn each(&self, on_page: &mut OnPage<'_>) -> Result<()> {
        let mut queue = self.storage.queue()?;
        let (mut next, mut done) = (1, Vec::new());
        loop {
            while next < self.count
                && queue.in_flight() < DEPTH
                && let Some(block) = self.block(queue.in_flight() == 0)?
            {
                let pages = RUN.min(self.count - next);
                queue.submit(self.request(next, pages as usize * PAGE, block));
                next += pages;
            }
            if queue.in_flight() == 0 {
                return Ok(());
            }
            queue.complete(1, &mut done);
            let taken = done.drain(..).try_for_each(|completion| self.take_run(completion, on_page));
            if taken.is_err() {
                queue.complete(queue.in_flight(), &mut Vec::new());
                return taken;
            }
        }
    }

    /// Memory for one request. With `must`, essential memory is used if there is no other.
    fn block(&self, must: bool) -> Result<Option<Block>> {
        let block = self.memory.lease(Component::Frames, Size::Slab);
        if block.is_none() && must {
            self.memory.lease_essential(Component::Frames, Size::Slab).map(Some)
        } else {
            Ok(block)
        }
    }

    fn take_run(&self, done: Completion, on_page: &mut OnPage<'_>) -> Result<()> {
        let Request { offset, mut block, len, .. } = done.request;
        let first = (offset / PAGE as u64) as u32;
        for (number, bytes) in (first..).zip(block[..len].chunks_exact_mut(PAGE)) {
            // One bad sector must not cost its neighbours.
            let read = done.result.is_ok() || self.file.read(bytes, u64::from(number) * PAGE as u64).is_ok();
            on_page(number, read.then_some(bytes))?;
        }
        Ok(())
    }

    /// Reads pages with all requests in flight. Returns them in the order requested, with `None` for a page that cannot
    /// be read.
    pub(super) fn read(&self, numbers: &[u32]) -> Result<Vec<Option<Block>>> {
        let mut queue = self.storage.queue()?;
        let submitted = numbers.iter().enumerate().try_for_each(|(i, &number)| {
            let block = self.memory.lease_essential(Component::Frames, Size::Frame)?;
            queue.submit(Request { tag: i as u64, ..self.request(number, PAGE, block) });
            Ok(())
        });
        let mut done = Vec::new();
        complete_all(&mut *queue, &mut done);
        submitted?;
        done.sort_by_key(|completion| completion.request.tag);
        Ok(done.into_iter().map(|completion| completion.result.is_ok().then_some(completion.request.block)).collect())
    }

    fn request(&self, page: u32, len: usize, block: Block) -> Request {
        let offset = u64::from(page) * PAGE as u64;
        Request { file: self.file.clone(), op: Op::Read, offset, block, len, tag: 0 }
    }
}

fn complete_all(queue: &mut dyn Queue, done: &mut Vec<Completion>) {
    queue.complete(queue.in_flight(), done);
}
