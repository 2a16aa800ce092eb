//! Writes pages to segments (hash-protocol.md, invariants 11 to 13).

use std::sync::Arc;

use ecotone_substrate::{
    Error, Result, bug,
    environment::Environment,
    memory::Component,
    storage::{Block, Op, Queue, Request},
};
use ecotone_sys::{epoch, primitive::thread};

use super::{
    HotLog,
    address::{Address, PAGE},
    page,
    segments::Segment,
};

/// Windows of one frame each that are written in parallel, if there is memory for them.
const WINDOWS: usize = 4;

/// Makes the segment in which the log goes on from an address: its file, its name, and the record that it belongs to
/// the keyspace.
pub(crate) type NextSegment<'n> = dyn FnMut(Address) -> Result<Arc<Segment>> + 'n;

impl HotLog {
    /// Waits until the pages below page boundary `until` do not change any more.
    pub(crate) fn freeze(&self, until: Address) {
        epoch::assert_unpinned();
        self.raise_read_only(until);
        while self.bounds.safe() < until {
            // Pins last microseconds.
            thread::yield_now();
            self.domain.drain();
        }
    }

    /// Writes the pages below page boundary `until`, which is not above SAFE, to segments. `next` makes missing
    /// segments. On an error, pages written before are below FLUSHED, unless the write itself failed.
    pub(crate) fn write_out(
        &self,
        environment: &Environment,
        until: Address,
        next: &mut NextSegment<'_>,
    ) -> Result<()> {
        epoch::assert_unpinned();
        assert!(until.in_page() == 0 && until <= self.bounds.safe(), "what may still change is not written");
        let _guard = self.locks.writing.lock();
        environment.health.check()?;
        if self.bounds.flushed() >= until {
            return Ok(());
        }
        let mut windows = Windows::new(environment)?;
        let (reached, done) = self.submit(&mut windows, until, next);
        windows.finish()?;
        self.bounds.raise_flushed(reached);
        done
    }

    /// Syncs the pages that have been written.
    pub(crate) fn sync(&self, environment: &Environment) -> Result<()> {
        epoch::assert_unpinned();
        let _guard = self.locks.syncing.lock();
        // After a failed sync, a later successful one proves nothing.
        environment.health.check()?;
        let flushed = self.bounds.flushed();
        let segments = self.segments.within(self.bounds.durable(), flushed);
        if !bug!(DurableBeforeSync) {
            segments.iter().try_for_each(|segment| segment.file().sync()).map_err(|e| environment.health.poison(e))?;
        }
        self.bounds.raise_durable(flushed);
        Ok(())
    }

    /// Submits the windows from FLUSHED to `until`. Returns how far that came, and why not further.
    fn submit(&self, windows: &mut Windows<'_>, until: Address, next: &mut NextSegment<'_>) -> (Address, Result<()>) {
        let mut at = self.bounds.flushed();
        while at < until {
            let segment = match self.segment_of(at, next) {
                Ok(segment) => segment,
                Err(error) => return (at, Err(error)),
            };
            let Some(mut block) = windows.take() else { break };
            let window = Window { from: at, until: until.min(segment.end()).min(at.frame_end()), segment };
            if self.copy(&window, &mut block) {
                at = window.until;
                windows.write(window, block);
            } else {
                windows.free.push(block);
                assert!(self.bounds.begin() > at, "only what is below BEGIN leaves memory unwritten");
            }
            at = at.max(self.bounds.begin());
        }
        (at.min(until), Ok(()))
    }

    fn segment_of(&self, address: Address, next: &mut NextSegment<'_>) -> Result<Arc<Segment>> {
        if let Some(segment) = self.segments.find(address) {
            return Ok(segment);
        }
        let segment = next(address)?;
        self.segments.push(segment.clone());
        Ok(segment)
    }

    /// Copies the pages of a window as they will be in the file. False if their frame has left memory.
    fn copy(&self, window: &Window, block: &mut Block) -> bool {
        let pin = self.domain.pin();
        let Some(frame) = self.frames.get(window.from, &pin) else { return false };
        for (number, page) in (0..).zip(block[..window.len()].chunks_mut(PAGE as usize)) {
            let address = window.from.plus(number * PAGE);
            page::encode(frame.words(), address.word(), window.segment.place(address), page);
        }
        true
    }
}

/// Pages of one frame and one segment.
#[derive(Debug)]
struct Window {
    segment: Arc<Segment>,
    from: Address,
    until: Address,
}

impl Window {
    fn len(&self) -> usize {
        (self.until.get() - self.from.get()) as usize
    }
}

/// Writes in flight, and memory for more.
struct Windows<'e> {
    environment: &'e Environment,
    queue: Box<dyn Queue>,
    free: Vec<Block>,
    /// The first error.
    failed: Option<Error>,
}

impl<'e> Windows<'e> {
    fn new(environment: &'e Environment) -> Result<Windows<'e>> {
        let free = environment.memory.lease_in_turn(Component::Frames, WINDOWS)?;
        Ok(Windows { environment, queue: environment.storage.queue()?, free, failed: None })
    }

    /// A block for the next window; `None` if a write has failed.
    fn take(&mut self) -> Option<Block> {
        if self.free.is_empty() {
            self.take_back(1);
        }
        if self.failed.is_some() { None } else { self.free.pop() }
    }

    fn write(&mut self, window: Window, block: Block) {
        let (len, offset) = (window.len(), window.segment.offset(window.from));
        let file = window.segment.file().clone();
        self.queue.submit(Request { file, op: Op::Write, offset, block, len, tag: 0 });
    }

    /// Waits until all is written.
    fn finish(mut self) -> Result<()> {
        self.take_back(self.queue.in_flight());
        self.failed.map_or(Ok(()), Err)
    }

    fn take_back(&mut self, at_least: usize) {
        if let Err(error) = self.queue.take_back(at_least, &mut self.free) {
            self.failed.get_or_insert(self.environment.health.poison(error));
        }
    }
}
