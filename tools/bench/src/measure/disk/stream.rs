//! Requests at random places, a fixed number in flight.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ecotone::internal::substrate::{
    limits::PAGE,
    storage::{Block, Op, Queue, Storage},
};
use ecotone_sys::chunk::Size;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::scratch::ScratchFile;
use crate::{error::Result, measure::zipf::below};

/// One thread's requests.
pub(super) struct Stream<'a> {
    scratch: &'a ScratchFile,
    op: Op,
    queue: Box<dyn Queue>,
    blocks: Vec<Block>,
    rng: SmallRng,
}

impl<'a> Stream<'a> {
    pub(super) fn new(scratch: &'a ScratchFile, op: Op, depth: usize, seed: u64) -> Result<Self> {
        let (mut blocks, mut rng) = (scratch.blocks(depth, Size::Frame)?, SmallRng::seed_from_u64(seed));
        blocks.iter_mut().for_each(|block| rng.fill_bytes(block));
        Ok(Stream { scratch, op, queue: scratch.disk.queue()?, blocks, rng })
    }

    /// Keeps all blocks in flight until `stop`, then waits for the rest. Returns the number of requests.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Result<u64> {
        let (mut count, mut done) = (0, Vec::new());
        for block in std::mem::take(&mut self.blocks) {
            self.submit(block);
        }
        while self.queue.in_flight() > 0 {
            self.queue.complete(1, &mut done);
            for completion in done.drain(..) {
                completion.result?;
                count += 1;
                if !stop.load(Relaxed) {
                    self.submit(completion.request.block);
                }
            }
        }
        Ok(count)
    }

    fn submit(&mut self, block: Block) {
        let offset = below(self.rng.next_u64(), self.scratch.pages).0 * PAGE as u64;
        self.queue.submit(self.scratch.request(self.op, offset, block, PAGE));
    }
}
