//! Reads a region of the hot log from its segments in windows, with read-ahead while one window is processed (H4;
//! hash.md, "Compaction").

use std::{collections::VecDeque, sync::Arc};

use ecotone_substrate::{
    Result,
    codec::Malformed,
    environment::Environment,
    memory::Component,
    storage::{Block, Op, Queue, Request},
};

use super::Region;
use crate::log::{Address, HotLog, Page, Segment};

/// Number of windows, if there is enough memory.
const WINDOWS: usize = 3;

/// Reads a region from its beginning.
#[derive(Debug)]
pub(super) struct Windows<'l> {
    log: &'l HotLog,
    queue: Box<dyn Queue>,
    free: Vec<Block>,
    /// Requested windows in order; with the bytes once they have arrived.
    asked: VecDeque<(Arc<Segment>, Region, Option<Block>)>,
    /// The region that is not requested yet.
    left: Region,
}

/// Pages of one segment.
#[derive(Debug)]
pub(super) struct Window {
    segment: Arc<Segment>,
    region: Region,
    bytes: Block,
}

impl<'l> Windows<'l> {
    /// # Errors
    /// If there is no memory for a single window.
    pub(super) fn new(environment: &Environment, log: &'l HotLog, region: Region) -> Result<Windows<'l>> {
        let free = environment.memory.lease_in_turn(Component::Frames, WINDOWS)?;
        Ok(Windows { log, queue: environment.storage.queue()?, free, asked: VecDeque::new(), left: region })
    }

    /// The next window; `None` after the last.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Window>> {
        self.ask()?;
        // Submits the requests, also if the next window is there already.
        self.receive(0)?;
        while self.asked.front().is_some_and(|(.., bytes)| bytes.is_none()) {
            self.receive(1)?;
        }
        Ok(self.asked.pop_front().and_then(|(segment, region, bytes)| Some(Window { segment, region, bytes: bytes? })))
    }

    /// Receives finished reads, and waits until at least `least` have finished.
    fn receive(&mut self, least: usize) -> Result<()> {
        let mut done = Vec::new();
        self.queue.complete(least, &mut done);
        for completion in done {
            completion.result?;
            let from = Address::new(completion.request.tag);
            if let Some((.., bytes)) = self.asked.iter_mut().find(|(_, asked, _)| asked.from == from) {
                *bytes = Some(completion.request.block);
            }
        }
        Ok(())
    }

    /// Takes back the memory of a processed window.
    pub(super) fn give_back(&mut self, window: Window) {
        self.free.push(window.bytes);
    }

    /// Requests as many windows as there is memory for.
    fn ask(&mut self) -> Result<()> {
        while self.left.from < self.left.until
            && let Some(block) = self.free.pop()
        {
            let segment = self.log.segment(self.left.from)?;
            let until = self.left.from.plus(block.len() as u64).min(self.left.until).min(segment.end());
            let region = Region { from: self.left.from, until };
            let (file, offset, len) = (segment.file().clone(), segment.offset(region.from), region.bytes() as usize);
            self.queue.submit(Request { file, op: Op::Read, offset, block, len, tag: region.from.get() });
            self.asked.push_back((segment, region, None));
            self.left.from = until;
        }
        Ok(())
    }
}

impl Window {
    /// The end of the window.
    pub(super) fn until(&self) -> Address {
        self.region.until
    }

    /// The pages of the window.
    pub(super) fn pages(&self) -> impl Iterator<Item = Address> {
        self.region.pages()
    }

    /// Reads a page of the window.
    ///
    /// # Errors
    /// If the page is damaged.
    pub(super) fn page(&self, page: Address) -> Result<Page<'_>> {
        self.segment.parse(page, &self.bytes[(page.get() - self.region.from.get()) as usize..])
    }

    /// The error for damage in a page of the window.
    pub(super) fn damaged(&self, page: Address, what: Malformed) -> ecotone_substrate::Error {
        self.segment.damaged(page, what)
    }
}
