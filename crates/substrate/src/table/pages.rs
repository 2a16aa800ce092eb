//! Pages of leased memory for many small items, none of which crosses a page boundary. Mostly a part of a file in its
//! file form. The last page's memory may end where its used part does.

use std::{iter, result, sync::Arc};

use ecotone_sys::{
    checksum::crc32c,
    chunk::{Size, cut_bytes},
};

use crate::{
    Error, Result,
    codec::{Malformed, is_zero},
    environment::Environment,
    limits::PAGE,
    memory::{Component, Memory},
    storage::{Block, Completion, File, Op, Queue, Request},
};

/// Requests in flight while pages are read.
const DEPTH: usize = 64;

/// Consecutive pages.
#[derive(Debug, Default)]
pub struct Pages {
    frames: Vec<Block>,
}

impl Pages {
    /// `count` pages of zeros.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn zeroed(memory: &Memory, component: Component, count: usize) -> Result<Pages> {
        let mut pages = Pages::default();
        (0..count).try_for_each(|_| pages.grow(memory, component))?;
        Ok(pages)
    }

    /// One page, in the frame that holds it.
    pub fn one(frame: Block) -> Pages {
        Pages { frames: vec![frame] }
    }

    /// Pages in these frames.
    pub fn in_frames(frames: Vec<Block>) -> Pages {
        Pages { frames }
    }

    /// Pages with these bytes, and zeros up to the end of the last.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn of(memory: &Memory, component: Component, bytes: &[u8]) -> Result<Pages> {
        let mut pages = Pages::zeroed(memory, component, bytes.len().div_ceil(PAGE))?;
        for (frame, bytes) in pages.frames.iter_mut().zip(bytes.chunks(PAGE)) {
            frame[..bytes.len()].copy_from_slice(bytes);
        }
        Ok(pages)
    }

    /// Reads pages of a file into frames that `lease` gives, with many requests in flight. Verifies their common
    /// checksum.
    ///
    /// # Errors
    /// If the checksum differs or they cannot be read, or there is no memory for them.
    pub fn read(
        environment: &Environment,
        lease: &dyn Fn() -> Result<Block>,
        file: &Arc<dyn File>,
        offset: u64,
        count: usize,
        checksum: u32,
    ) -> Result<Pages> {
        Pages::checked(Pages::read_all(environment, lease, file, offset, count)?, file, offset, checksum)
    }

    /// Pages that were read from a file into these frames. Verifies their common checksum.
    ///
    /// # Errors
    /// If the checksum differs.
    pub fn checked(frames: Vec<Block>, file: &Arc<dyn File>, offset: u64, checksum: u32) -> Result<Pages> {
        let pages = Pages { frames };
        if pages.checksum() == checksum {
            Ok(pages)
        } else {
            Err(Error::corruption(file.id(), offset, "the checksum of pages that belong together does not match"))
        }
    }

    fn read_all(
        environment: &Environment,
        lease: &dyn Fn() -> Result<Block>,
        file: &Arc<dyn File>,
        offset: u64,
        count: usize,
    ) -> Result<Vec<Block>> {
        let mut queue = environment.storage.queue()?;
        let mut frames: Vec<Option<Block>> = iter::repeat_with(|| None).take(count).collect();
        let read = (0..count).try_for_each(|page| {
            let block = lease()?;
            let (offset, tag) = (offset + (page * PAGE) as u64, page as u64);
            queue.submit(Request { file: file.clone(), op: Op::Read, offset, block, len: PAGE, tag });
            let wait = usize::from(queue.in_flight() >= DEPTH);
            collect(&mut *queue, wait, &mut frames)
        });
        let rest = queue.in_flight();
        read.and(collect(&mut *queue, rest, &mut frames))?;
        Ok(frames.into_iter().flatten().collect())
    }

    /// Appends a page of zeros.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn grow(&mut self, memory: &Memory, component: Component) -> Result<()> {
        let mut frame = memory.lease_essential(component, Size::Frame)?;
        frame.fill(0);
        self.frames.push(frame);
        Ok(())
    }

    /// Number of pages.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// All pages.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().map(|frame| &frame[..])
    }

    /// The page at an index.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn page(&self, number: usize) -> &[u8] {
        &self.frames[number]
    }

    /// `N` bytes of a page.
    ///
    /// # Panics
    /// If they lie elsewhere.
    #[inline]
    pub fn get<const N: usize>(&self, page: usize, at: usize) -> &[u8; N] {
        self.frames[page][at..].first_chunk().expect("what is asked for lies in a page")
    }

    /// Sets bytes of a page.
    ///
    /// # Panics
    /// If they lie elsewhere.
    pub fn set(&mut self, page: usize, at: usize, bytes: &[u8]) {
        self.frames[page][at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The checksum of all pages.
    pub fn checksum(&self) -> u32 {
        self.iter().fold(0, crc32c)
    }

    /// Bytes of memory that pages take after [`ending_at`](Self::ending_at) with these arguments.
    pub fn memory_ending_at(len: usize, look: usize) -> usize {
        let whole = len.div_ceil(PAGE).saturating_sub(1) * PAGE;
        if len == 0 { 0 } else { whole + cut_bytes(len - whole + look) }
    }

    /// The pages with `len` used bytes, which end in the last page. The bytes behind must be zero; `look` of them stay,
    /// and the memory of the rest is given back.
    ///
    /// # Errors
    /// If other bytes follow, or the used bytes end elsewhere.
    pub fn ending_at(mut self, len: usize, look: usize) -> result::Result<Pages, Malformed> {
        let malformed = Malformed::new(len, "reserved bytes are not zero");
        let Some(last) = self.frames.pop() else { return if len == 0 { Ok(self) } else { Err(malformed) } };
        let inside = len.checked_sub(self.frames.len() * PAGE);
        let inside = inside.filter(|at| last.get(*at..).is_some_and(is_zero)).ok_or(malformed)?;
        self.frames.push(last.cut(inside + look));
        Ok(self)
    }

    /// Whether all pages are zero from byte `at` of the page on.
    pub fn is_zero_from(&self, at: usize) -> bool {
        self.iter().all(|page| is_zero(&page[at..]))
    }
}

/// Puts finished requests' blocks in their places. Stops at the first failure.
fn collect(queue: &mut dyn Queue, at_least: usize, frames: &mut [Option<Block>]) -> Result<()> {
    let mut done: Vec<Completion> = Vec::new();
    queue.complete(at_least, &mut done);
    done.into_iter().try_for_each(|completion| {
        completion.result?;
        frames[completion.request.tag as usize] = Some(completion.request.block);
        Ok(())
    })
}
