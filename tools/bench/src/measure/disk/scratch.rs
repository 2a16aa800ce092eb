//! The test file.

use std::{path::Path, sync::Arc};

use ecotone::internal::substrate::{
    disk::Disk,
    limits::PAGE,
    memory::{Component, Memory},
    storage::{Access, Block, File, FileId, Op, Request, Storage},
};
use ecotone_sys::chunk::Size;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    error::Result,
    measure::{limit::Limit, progress::Progress},
};

/// The test file's own directory below --dir.
pub(crate) const DIRECTORY: &str = "ecotone-bench-disk";

/// Requests in flight while the file is written.
const FILL_DEPTH: usize = 8;
/// Memory for the requests: 128 pages, or the chunks of the fill, and the permanent reserve.
const MEMORY: usize = 32 << 20;
/// The test file.
const FILE: FileId = FileId::Scratch(0);
/// Bytes of the last page, which is written last and never again: a file that ends with them is complete.
const SEAL: [u8; PAGE] = [0x5e; PAGE];

/// The open test file.
pub(super) struct ScratchFile {
    pub(super) disk: Disk,
    file: Arc<dyn File>,
    memory: Arc<Memory>,
    /// Pages that are read and written: all but the seal page.
    pub(super) pages: u64,
}

impl ScratchFile {
    /// Opens the test file. Creates it first unless a complete one of this size exists.
    pub(super) fn open(directory: &Path, size: u64) -> Result<Self> {
        let pages =
            (size / PAGE as u64).checked_sub(1).filter(|&pages| pages > 0).ok_or("--size must be at least 8 KiB")?;
        let disk = Disk::open(directory, true)?;
        let memory = Memory::new(MEMORY);
        if disk.list()?.contains(&FILE) {
            let scratch = ScratchFile { file: disk.open(FILE, Access::Direct)?, memory: memory.clone(), pages, disk };
            if scratch.is_whole()? {
                return Ok(scratch);
            }
            let ScratchFile { disk, .. } = scratch;
            disk.remove(FILE)?;
            return Self::fill(disk, memory, pages);
        }
        Self::fill(disk, memory, pages)
    }

    fn is_whole(&self) -> Result<bool> {
        let mut last = self.memory.lease_essential(Component::Frames, Size::Frame)?;
        let end = self.pages * PAGE as u64;
        if self.file.len()? != end + PAGE as u64 {
            return Ok(false);
        }
        self.file.read(&mut last, end)?;
        Ok(last[..] == SEAL)
    }

    /// Preallocates the file and writes all of it once, so that reads find data on the disk.
    fn fill(disk: Disk, memory: Arc<Memory>, pages: u64) -> Result<Self> {
        let scratch = ScratchFile { file: disk.create(FILE, Access::Direct)?, memory, pages, disk };
        let end = pages * PAGE as u64;
        scratch.file.preallocate(0, end + PAGE as u64)?;
        let progress = Progress::new("fill", Limit::Operations(pages));
        let mut queue = scratch.disk.queue()?;
        let mut rng = SmallRng::seed_from_u64(1);
        let mut blocks = scratch.blocks(FILL_DEPTH, Size::Chunk)?;
        let mut done = Vec::new();
        let mut offset = 0;
        while offset < end || queue.in_flight() > 0 {
            while offset < end
                && let Some(mut block) = blocks.pop()
            {
                let len = block.len().min(usize::try_from(end - offset)?);
                rng.fill_bytes(&mut block[..len]);
                queue.submit(scratch.request(Op::Write, offset, block, len));
                offset += len as u64;
            }
            queue.complete(1, &mut done);
            for completion in done.drain(..) {
                completion.result?;
                blocks.push(completion.request.block);
            }
            progress.show(offset / PAGE as u64);
        }
        drop(queue);
        scratch.file.sync()?;
        let mut seal = scratch.memory.lease_essential(Component::Frames, Size::Frame)?;
        seal.copy_from_slice(&SEAL);
        scratch.file.write(&seal, end)?;
        scratch.file.sync()?;
        Ok(scratch)
    }

    pub(super) fn blocks(&self, count: usize, size: Size) -> Result<Vec<Block>> {
        (0..count).map(|_| Ok(self.memory.lease_essential(Component::Frames, size)?)).collect()
    }

    pub(super) fn request(&self, op: Op, offset: u64, block: Block, len: usize) -> Request {
        Request { file: self.file.clone(), op, offset, block, len, tag: 0 }
    }
}
