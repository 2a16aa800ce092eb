//! An array of short byte strings of one size, in frames of the budget.

use ecotone_substrate::{
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::chunk::Size;

const FRAME: usize = Size::Frame.bytes();

/// An array of as many cells as fit into its frames. The content of a cell is undefined until it is set.
#[derive(Debug)]
pub(super) struct Cells {
    frames: Vec<Block>,
    size: usize,
}

impl Cells {
    /// Leases memory for `count` cells of `size` bytes, a power of two from 8 to 4096; `None` if the budget cannot
    /// spare it.
    pub(super) fn lease(memory: &Memory, count: usize, size: usize) -> Option<Cells> {
        assert!(size.is_power_of_two() && (8..=FRAME).contains(&size), "cells of {size} bytes");
        let frames = (count * size).div_ceil(FRAME);
        let frames: Option<Vec<Block>> = (0..frames).map(|_| memory.lease(Component::Forecast, Size::Frame)).collect();
        Some(Cells { frames: frames?, size })
    }

    /// Bytes of a cell.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.frames.len() * (FRAME / self.size)
    }

    /// Changes the size of the cells within the same frames. Their content is lost.
    pub(super) fn divide(&mut self, size: usize) {
        assert!(size.is_power_of_two() && (8..=FRAME).contains(&size), "cells of {size} bytes");
        self.size = size;
    }

    /// # Panics
    /// Beyond the end.
    #[inline]
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let in_frame = FRAME / self.size;
        &self.frames[at / in_frame][at % in_frame * self.size..][..self.size]
    }

    /// # Panics
    /// Beyond the end.
    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> &mut [u8] {
        let in_frame = FRAME / self.size;
        &mut self.frames[at / in_frame][at % in_frame * self.size..][..self.size]
    }

    /// The number in a cell of eight bytes.
    #[inline]
    pub(super) fn number(&self, at: usize) -> f64 {
        f64::from_le_bytes(*self.get(at).first_chunk().expect("cells of numbers have eight bytes"))
    }

    /// Writes a number into a cell of eight bytes.
    #[inline]
    pub(super) fn set_number(&mut self, at: usize, number: f64) {
        self.get_mut(at).copy_from_slice(&number.to_le_bytes());
    }

    /// Sorts the first `count` cells within each frame, and returns the number of cells of a frame: each multiple of it
    /// begins a sorted run.
    pub(super) fn sort_runs(&mut self, count: usize) -> usize {
        let in_frame = FRAME / self.size;
        for (i, frame) in self.frames.iter_mut().enumerate() {
            let bytes = &mut frame[..count.saturating_sub(i * in_frame).min(in_frame) * self.size];
            match self.size {
                8 => bytes.as_chunks_mut::<8>().0.sort_unstable_by_key(|cell| u64::from_be_bytes(*cell)),
                16 => bytes.as_chunks_mut::<16>().0.sort_unstable(),
                32 => bytes.as_chunks_mut::<32>().0.sort_unstable(),
                _ => bytes.as_chunks_mut::<64>().0.sort_unstable(),
            }
        }
        in_frame
    }
}
