//! The window of one end of a scan: pages that were requested and not visited yet.

use std::collections::VecDeque;

use ecotone_engine::{page_cache::Ticket, read_ahead::LARGEST_READ, remaining_range::Direction};
use ecotone_substrate::{
    Error, Result,
    limits::PAGE,
    memory::Component,
    storage::{Block, Completion, Op, Queue, Request},
};
use ecotone_sys::chunk::Size;

use super::{
    super::{Tree, index::PagePair, page_allocator::IoPurpose},
    plan::{PlannedPage, Position},
    runs::{Run, Runs},
};

/// One read request, with its memory once it is answered; or a page from the page cache.
#[derive(Debug)]
struct Read {
    run: Run,
    answer: Option<Result<Block>>,
    /// The tickets of its pages, taken before the request; `None` for a page from the page cache.
    tickets: Option<[Ticket; LARGEST_READ]>,
}

/// The position of a page in the memory of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSlot {
    read: usize,
    offset: usize,
}

/// Pages that were requested together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Pages that were not visited yet.
    pages: std::vec::IntoIter<PlannedPage>,
    reads: Vec<Read>,
    waiting: usize,
}

impl Batch {
    /// The position of a page, or the error of its read.
    pub(super) fn find(&self, page: u32) -> Result<PageSlot> {
        let found = self.reads.iter().enumerate().find_map(|(i, read)| Some((i, read, read.run.offset_of(page)?)));
        match found {
            Some((read, Read { answer: Some(Ok(_)), .. }, offset)) => Ok(PageSlot { read, offset }),
            Some((_, Read { answer: Some(Err(error)), .. }, _)) => Err(error.clone()),
            _ => Err(Error::Invalid("a scan came to a page that it did not read".into())),
        }
    }

    /// The ticket of a page; `None` for one from the page cache.
    pub(super) fn ticket(&self, at: PageSlot) -> Option<Ticket> {
        self.reads[at.read].tickets.map(|tickets| tickets[at.offset / PAGE])
    }

    /// The bytes of a page.
    #[inline]
    pub(super) fn bytes(&self, at: PageSlot) -> &[u8] {
        match &self.reads[at.read].answer {
            Some(Ok(block)) => &block[at.offset..at.offset + PAGE],
            _ => &[],
        }
    }

    pub(super) fn bytes_mut(&mut self, at: PageSlot) -> &mut [u8] {
        match &mut self.reads[at.read].answer {
            Some(Ok(block)) => &mut block[at.offset..at.offset + PAGE],
            _ => &mut [],
        }
    }
}

/// The batches in scan order; the first one is being visited. A queue exists only while requests are in flight.
#[derive(Debug)]
pub(super) struct Window {
    memory: Component,
    batches: VecDeque<Batch>,
    /// Number of batches that are done; tags number the others from here.
    gone: u64,
    queue: Option<Box<dyn Queue>>,
    done: Vec<Completion>,
}

impl Window {
    pub(super) fn new(memory: Component) -> Window {
        Window { memory, batches: VecDeque::new(), gone: 0, queue: None, done: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Bytes of memory of all batches.
    pub(super) fn bytes(&self) -> usize {
        self.batches.iter().flat_map(|batch| &batch.reads).map(|read| read.run.size().bytes()).sum()
    }

    /// Bytes of the copies of dirty records, for all pages that were not visited yet.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.batches
            .iter()
            .flat_map(|batch| batch.pages.as_slice())
            .map(|expected| expected.dirty.records.memory())
            .sum()
    }

    /// The batch that is being visited.
    #[inline]
    pub(super) fn first(&self) -> Option<&Batch> {
        self.batches.front()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut Batch> {
        self.batches.front_mut()
    }

    /// Drops the first batch if all its pages were visited.
    pub(super) fn pass(&mut self) {
        if self.batches.front().is_some_and(|batch| batch.pages.len() == 0) {
            self.batches.pop_front();
            self.gone += 1;
        }
    }

    /// Drops all batches, after waiting for the requests in flight.
    pub(super) fn clear(&mut self) {
        self.queue = None;
        self.gone += self.batches.len() as u64;
        self.batches.clear();
    }

    /// Requests pages; returns where to continue, which is within these pages if memory is short. With
    /// `wait`, a read that takes a single request is complete on return.
    pub(super) fn ask(
        &mut self,
        tree: &Tree,
        mut pages: Vec<PlannedPage>,
        direction: Direction,
        wait: bool,
    ) -> Result<Position> {
        let (reads, requests) = lease(tree, self.memory, &mut pages)?;
        tree.store.file.traffic().read(IoPurpose::Scan, requests.iter().map(|(i, _)| reads[*i].run.pages).sum());
        let position = pages.last().map_or(Position::Over, |last| Position::behind(last, direction));
        let mut batch = Batch { pages: pages.into_iter(), reads, waiting: requests.len() };
        if wait && batch.waiting == 1 {
            for (i, block) in requests {
                batch.reads[i].answer = Some(read(tree, batch.reads[i].run, block));
            }
            batch.waiting = 0;
        } else if batch.waiting > 0 {
            let number = self.gone + self.batches.len() as u64;
            let queue = match &mut self.queue {
                Some(queue) => queue,
                none => none.insert(tree.context.shared.storage.queue()?),
            };
            for (i, block) in requests {
                queue.submit(request(tree, batch.reads[i].run, block, number << 16 | i as u64));
            }
            queue.complete(0, &mut self.done);
        }
        self.batches.push_back(batch);
        self.sort();
        Ok(position)
    }

    /// Waits for the first batch, and returns its next page.
    pub(super) fn next(&mut self) -> Option<PlannedPage> {
        while self.batches.front()?.waiting > 0 {
            self.queue.as_mut()?.complete(1, &mut self.done);
            self.sort();
        }
        self.batches.front_mut()?.pages.next()
    }

    /// Assigns finished requests to their batches, and drops the queue when nothing is in flight.
    fn sort(&mut self) {
        for Completion { request, result } in self.done.drain(..) {
            let at = usize::try_from((request.tag >> 16) - self.gone).expect("a place in the window");
            let batch = &mut self.batches[at];
            batch.reads[(request.tag & 0xFFFF) as usize].answer = Some(result.map(|()| request.block));
            batch.waiting -= 1;
        }
        if self.queue.as_ref().is_some_and(|queue| queue.in_flight() == 0) {
            self.queue = None;
        }
    }
}

/// Reads, and the indexes of those that are requests, each with its block.
type Leased = (Vec<Read>, Vec<(usize, Block)>);

/// Leases memory for reading some pages. Drops all but the first page if there is no memory for the others.
fn lease(tree: &Tree, memory: Component, pages: &mut Vec<PlannedPage>) -> Result<Leased> {
    loop {
        match lease_all(tree, memory, &runs_of(pages)) {
            Ok(leased) => return Ok(leased),
            Err(error) if pages.len() == 1 => return Err(error),
            Err(_) => pages.truncate(1),
        }
    }
}

fn lease_all(tree: &Tree, memory: Component, runs: &[Run]) -> Result<Leased> {
    let lease = |size| tree.context.shared.memory.lease_essential(memory, size);
    let (mut reads, mut requests) = (Vec::with_capacity(runs.len()), Vec::with_capacity(runs.len()));
    tree.pages.count(runs.len());
    for run in runs {
        let rest = find_cached(tree, memory, *run, &mut reads)?;
        if rest.pages > 0 {
            requests.push((reads.len(), lease(rest.size())?));
            reads.push(Read { run: rest, answer: None, tickets: Some(tickets(tree, rest)) });
        }
    }
    Ok((reads, requests))
}

/// Takes the pages at both ends of a run from the page cache; returns the run that is left to read. Cached pages in its
/// middle are read too, which costs less than a second request.
fn find_cached(tree: &Tree, memory: Component, mut run: Run, reads: &mut Vec<Read>) -> Result<Run> {
    for at_start in [true, false] {
        while run.pages > 0 {
            let page = if at_start { run.first } else { run.first + run.pages as u32 - 1 };
            let id = tree.page_id(page);
            if !tree.pages.touch(id) {
                break;
            }
            let mut block = tree.context.shared.memory.lease_essential(memory, Size::Frame)?;
            if !tree.pages.copy(id, &mut block) {
                break;
            }
            reads.push(Read { run: Run { first: page, pages: 1 }, answer: Some(Ok(block)), tickets: None });
            run = run.shortened(at_start);
        }
    }
    Ok(run)
}

/// The tickets of the pages of a run, taken before it is read (invariant 18).
fn tickets(tree: &Tree, run: Run) -> [Ticket; LARGEST_READ] {
    let mut tickets = [Ticket::default(); LARGEST_READ];
    for (ticket, page) in tickets.iter_mut().zip(run.first..).take(run.pages) {
        *ticket = tree.pages.ticket(tree.page_id(page));
    }
    tickets
}

fn runs_of(pages: &[PlannedPage]) -> Vec<Run> {
    let mut runs = Runs::default();
    pages.iter().for_each(|expected| runs.add(expected.pair.page));
    let overflows = pages.iter().map(|expected| expected.pair.overflow).filter(|page| *page != PagePair::NONE);
    runs.0.extend(overflows.map(|page| Run { first: page, pages: 1 }));
    runs.0
}

fn read(tree: &Tree, run: Run, mut block: Block) -> Result<Block> {
    tree.store.file.file().read(&mut block[..run.pages * PAGE], u64::from(run.first) * PAGE as u64)?;
    Ok(block)
}

fn request(tree: &Tree, run: Run, block: Block, tag: u64) -> Request {
    let (file, offset) = (tree.store.file.file().clone(), u64::from(run.first) * PAGE as u64);
    Request { file, op: Op::Read, offset, block, len: run.pages * PAGE, tag }
}
