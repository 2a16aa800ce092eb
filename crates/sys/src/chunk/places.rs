//! The leased and free places of all chunks.

use std::ptr::NonNull;

use super::{
    CELL_BYTES, CHUNK_BYTES, Size,
    bits::Bits,
    cells::{Cells, Run},
    map::{HUGE_PAGE, Mapping},
};

const PARTS: usize = 16;
/// Chunks that are mapped together, so that a huge page can hold them.
const TOGETHER: usize = HUGE_PAGE / CHUNK_BYTES;
const ALL: u16 = u16::MAX;

/// The bytes of one block: a chunk; for smaller sizes the slab in the chunk, the frame in the slab, and cells of the
/// frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    chunk: u32,
    slab: u8,
    frame: u8,
    size: Size,
    /// The cells that are kept of a frame that was cut.
    cells: Option<Run>,
}

impl Place {
    /// The length in bytes.
    #[inline]
    pub(super) fn bytes(self) -> usize {
        self.cells.map_or(self.size.bytes(), |run| usize::from(run.count) * CELL_BYTES)
    }

    /// Whether the place is a whole frame.
    pub(super) fn is_frame(self) -> bool {
        self.size == Size::Frame && self.cells.is_none()
    }

    fn offset(self) -> usize {
        let cells = self.cells.map_or(0, Run::offset);
        usize::from(self.slab) * Size::Slab.bytes() + usize::from(self.frame) * Size::Frame.bytes() + cells
    }

    /// The number of the place's frame among all frames.
    fn number(self) -> u32 {
        self.chunk << 8 | u32::from(self.slab) << 4 | u32::from(self.frame)
    }

    fn of_frame(number: u32) -> Place {
        Place { chunk: number >> 8, slab: number as u8 >> 4, frame: number as u8 & 15, size: Size::Frame, cells: None }
    }
}

/// A chunk in use. A slab whose bit is not in `free_slabs` is leased whole, or split: then `free_frames` says which of
/// its frames are free.
#[derive(Debug)]
struct Chunk {
    free_slabs: u16,
    /// Slabs that are split and have a free frame.
    open_slabs: u16,
    free_frames: [u16; PARTS],
}

/// All chunks, in use or not, and the lowest place with space for each size.
#[derive(Debug)]
pub(super) struct Places {
    chunks: Vec<Option<Chunk>>,
    /// The memory of each [`TOGETHER`] chunks, while one of them is in use.
    mappings: Vec<Option<Mapping>>,
    used: usize,
    mapped_bytes: usize,
    unused: Bits,
    with_slab: Bits,
    with_frame: Bits,
    cells: Cells,
}

impl Places {
    pub(super) fn new(chunks: usize) -> Self {
        let mut unused = Bits::new(chunks);
        (0..chunks).for_each(|chunk| unused.insert(chunk));
        let (with_slab, with_frame) = (Bits::new(chunks), Bits::new(chunks));
        let mappings = (0..chunks.div_ceil(TOGETHER)).map(|_| None).collect();
        let chunks = (0..chunks).map(|_| None).collect();
        Places { chunks, mappings, used: 0, mapped_bytes: 0, unused, with_slab, with_frame, cells: Cells::default() }
    }

    /// Bytes that are mapped.
    pub(super) fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }

    /// Takes the lowest free place of a size. Begins a chunk for it if necessary, and if `keep` others stay unused.
    pub(super) fn take(&mut self, size: Size, keep: usize) -> Option<(Place, NonNull<u8>)> {
        let room = match size {
            Size::Frame => self.with_frame.first().into_iter().chain(self.with_slab.first()).min(),
            Size::Slab => self.with_slab.first(),
            Size::Chunk => None,
        };
        let index = match room {
            Some(index) => index,
            None => self.begin(keep)?,
        };
        let chunk = self.chunks[index].as_mut()?;
        let (slab, frame) = chunk.take(size);
        let place = Place { chunk: u32::try_from(index).ok()?, slab, frame, size, cells: None };
        self.note(index);
        Some((place, self.start(place)?))
    }

    /// The first byte of a place that is in use.
    fn start(&self, place: Place) -> Option<NonNull<u8>> {
        let index = place.chunk as usize;
        let mapping = self.mappings[index / TOGETHER].as_ref()?;
        Some(mapping.at(index % TOGETHER * CHUNK_BYTES + place.offset()))
    }

    /// Takes cells of a frame that is cut, if one has space for them.
    pub(super) fn take_cells(&mut self, count: u8) -> Option<(Place, NonNull<u8>)> {
        let (frame, run) = self.cells.take(count)?;
        let place = Place { cells: Some(run), ..Place::of_frame(frame) };
        Some((place, self.start(place)?))
    }

    /// Frees a frame that `take` gave, except for so many cells at its front.
    pub(super) fn cut(&mut self, frame: Place, count: u8) -> Place {
        let run = Run::front(count);
        self.cells.split(frame.number(), run);
        Place { cells: Some(run), ..frame }
    }

    /// Frees a place. The caller holds no pointer into the place any more.
    pub(super) fn give_back(&mut self, place: Place) {
        if let Some(run) = place.cells
            && !self.cells.give_back(place.number(), run)
        {
            return;
        }
        let index = place.chunk as usize;
        if let Some(chunk) = &mut self.chunks[index] {
            chunk.give_back(place);
        }
        self.note(index);
    }

    fn begin(&mut self, keep: usize) -> Option<usize> {
        let index = self.unused.first()?;
        if self.chunks.len() - self.used <= keep {
            return None;
        }
        let mapping = &mut self.mappings[index / TOGETHER];
        if mapping.is_none() {
            let behind = self.chunks.len() - index / TOGETHER * TOGETHER;
            let fresh = Mapping::new(behind.min(TOGETHER) * CHUNK_BYTES)?;
            self.mapped_bytes += fresh.bytes();
            *mapping = Some(fresh);
        }
        self.chunks[index] = Some(Chunk { free_slabs: ALL, open_slabs: 0, free_frames: [0; PARTS] });
        self.unused.remove(index);
        self.used += 1;
        Some(index)
    }

    /// Ends a chunk that has no leases, and unmaps it if its neighbours have none either.
    fn end(&mut self, index: usize) {
        self.chunks[index] = None;
        self.used -= 1;
        self.unused.insert(index);
        let first = index / TOGETHER * TOGETHER;
        if self.chunks[first..].iter().take(TOGETHER).all(Option::is_none) {
            let gone = self.mappings[index / TOGETHER].take();
            self.mapped_bytes -= gone.map_or(0, |mapping| mapping.bytes());
        }
    }

    /// Updates the sets for one chunk, and ends the chunk if it has no leases.
    fn note(&mut self, index: usize) {
        let (mut slab, mut frame) = (false, false);
        if let Some(chunk) = &self.chunks[index] {
            (slab, frame) = (chunk.free_slabs != 0, chunk.open_slabs != 0);
            if chunk.free_slabs == ALL {
                slab = false;
                self.end(index);
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
    /// Takes the lowest free slab and frame; the caller has checked that there is space for `size`.
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

/// The least member of a nonempty set of sixteen.
fn lowest(set: u16) -> u8 {
    assert!(set != 0, "there is room");
    set.trailing_zeros() as u8
}

fn take_lowest(set: &mut u16) -> u8 {
    let bit = lowest(*set);
    *set &= !(1 << bit);
    bit
}
