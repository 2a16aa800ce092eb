//! Which bytes of which chunk are leased.

use std::ptr::NonNull;

use super::{Size, bits::Bits, map::Mapping};

const PARTS: usize = 16;
const ALL: u16 = u16::MAX;

/// The bytes of one block: a chunk, and for the smaller sizes the slab in it and the frame in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    chunk: u32,
    slab: u8,
    frame: u8,
    pub(super) size: Size,
}

impl Place {
    fn offset(self) -> usize {
        usize::from(self.slab) * Size::Slab.bytes() + usize::from(self.frame) * Size::Frame.bytes()
    }
}

/// A mapped chunk. A slab whose bit is not in `free_slabs` is leased whole, or split: then `free_frames` says which of its frames are free.
#[derive(Debug)]
struct Chunk {
    mapping: Mapping,
    free_slabs: u16,
    /// Slabs that are split and have a free frame.
    open_slabs: u16,
    free_frames: [u16; PARTS],
}

/// All chunks, mapped or not, and where the lowest room for each size is.
#[derive(Debug)]
pub(super) struct Places {
    chunks: Vec<Option<Chunk>>,
    mapped: usize,
    unmapped: Bits,
    with_slab: Bits,
    with_frame: Bits,
}

impl Places {
    pub(super) fn new(chunks: usize) -> Self {
        let mut unmapped = Bits::new(chunks);
        (0..chunks).for_each(|chunk| unmapped.insert(chunk));
        let (with_slab, with_frame) = (Bits::new(chunks), Bits::new(chunks));
        Places { chunks: (0..chunks).map(|_| None).collect(), mapped: 0, unmapped, with_slab, with_frame }
    }

    /// Chunks that are mapped.
    pub(super) fn mapped(&self) -> usize {
        self.mapped
    }

    /// Takes the lowest free place of a size, and maps a chunk for it if `keep` others stay unmapped.
    pub(super) fn take(&mut self, size: Size, keep: usize) -> Option<(Place, NonNull<u8>)> {
        let room = match size {
            Size::Frame => self.with_frame.first().into_iter().chain(self.with_slab.first()).min(),
            Size::Slab => self.with_slab.first(),
            Size::Chunk => None,
        };
        let index = match room {
            Some(index) => index,
            None => self.map(keep)?,
        };
        let chunk = self.chunks[index].as_mut()?;
        let (slab, frame) = chunk.take(size);
        let place = Place { chunk: u32::try_from(index).ok()?, slab, frame, size };
        let start = chunk.mapping.at(place.offset());
        self.note(index);
        Some((place, start))
    }

    /// Frees a place that `take` gave. The caller holds no pointer into it any more.
    pub(super) fn give_back(&mut self, place: Place) {
        let index = place.chunk as usize;
        if let Some(chunk) = &mut self.chunks[index] {
            chunk.give_back(place);
        }
        self.note(index);
    }

    fn map(&mut self, keep: usize) -> Option<usize> {
        let index = self.unmapped.first()?;
        if self.chunks.len() - self.mapped <= keep {
            return None;
        }
        self.chunks[index] = Some(Chunk { mapping: Mapping::new()?, free_slabs: ALL, open_slabs: 0, free_frames: [0; PARTS] });
        self.unmapped.remove(index);
        self.mapped += 1;
        Some(index)
    }

    /// Brings the sets in line with one chunk, and unmaps it if nothing of it is leased.
    fn note(&mut self, index: usize) {
        let (mut slab, mut frame) = (false, false);
        if let Some(chunk) = &self.chunks[index] {
            (slab, frame) = (chunk.free_slabs != 0, chunk.open_slabs != 0);
            if chunk.free_slabs == ALL {
                slab = false;
                self.chunks[index] = None;
                self.mapped -= 1;
                self.unmapped.insert(index);
            }
        }
        if slab {
            self.with_slab.insert(index)
        } else {
            self.with_slab.remove(index)
        }
        if frame { self.with_frame.insert(index) } else { self.with_frame.remove(index) }
    }
}

impl Chunk {
    /// Takes the lowest free slab and frame; there is room for `size`.
    fn take(&mut self, size: Size) -> (u8, u8) {
        match size {
            Size::Chunk => {
                self.free_slabs = 0;
                (0, 0)
            }
            Size::Slab => (take_lowest(&mut self.free_slabs), 0),
            Size::Frame => self.take_frame(),
        }
    }

    fn take_frame(&mut self) -> (u8, u8) {
        if self.open_slabs == 0 {
            let slab = take_lowest(&mut self.free_slabs);
            self.open_slabs |= 1 << slab;
            self.free_frames[usize::from(slab)] = ALL;
        }
        let slab = lowest(self.open_slabs);
        let frames = &mut self.free_frames[usize::from(slab)];
        let frame = take_lowest(frames);
        if *frames == 0 {
            self.open_slabs &= !(1 << slab);
        }
        (slab, frame)
    }

    fn give_back(&mut self, place: Place) {
        match place.size {
            Size::Chunk => self.free_slabs = ALL,
            Size::Slab => self.free_slabs |= 1 << place.slab,
            Size::Frame => {
                let frames = &mut self.free_frames[usize::from(place.slab)];
                *frames |= 1 << place.frame;
                self.open_slabs |= 1 << place.slab;
                if *frames == ALL {
                    self.open_slabs &= !(1 << place.slab);
                    self.free_slabs |= 1 << place.slab;
                }
            }
        }
    }
}

/// The least member of a set of sixteen that is not empty.
fn lowest(set: u16) -> u8 {
    assert!(set != 0, "there is room");
    set.trailing_zeros() as u8
}

fn take_lowest(set: &mut u16) -> u8 {
    let bit = lowest(*set);
    *set &= !(1 << bit);
    bit
}
