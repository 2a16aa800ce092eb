//! One simulated file: its synced content, and every version since.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use ecotone_substrate::limits::{PAGE, SECTOR};
use rand::{RngExt, rngs::SmallRng};

use super::{
    history::{Crash, History},
    pages::{Page, Pages, ZERO, shared},
};

/// Length and reserved space of a file. They change together, as in a journalled file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// In bytes.
    pub(super) length: u64,
    /// Where the reserved part ends, in bytes.
    allocated: u64,
    /// The pages before that end that have no space.
    holes: Arc<BTreeSet<u64>>,
}

/// How much of an interrupted or failed operation takes effect.
#[derive(Debug, Clone, Copy)]
enum PartialEffect {
    Nothing,
    Everything,
    Some,
}

impl PartialEffect {
    fn draw(random: &mut SmallRng) -> PartialEffect {
        match random.random_range(0..4) {
            0 => PartialEffect::Nothing,
            1 => PartialEffect::Everything,
            _ => PartialEffect::Some,
        }
    }

    fn takes(self, random: &mut SmallRng) -> bool {
        match self {
            PartialEffect::Nothing => false,
            PartialEffect::Everything => true,
            PartialEffect::Some => random.random(),
        }
    }
}

/// A file without its name.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    durable: Pages,
    /// Each unsynced page; the first version of its history is the durable one.
    dirty: BTreeMap<u64, History<Arc<Page>>>,
    extent: History<Extent>,
}

impl Default for Inode {
    fn default() -> Self {
        Inode { durable: Pages::default(), dirty: BTreeMap::new(), extent: History::new(Extent::default()) }
    }
}

impl Extent {
    /// Bytes that must be reserved before the file can be written from `offset` to `end`.
    pub(super) fn growth(&self, offset: u64, end: u64) -> u64 {
        let holes = self.holes.range(pages_of(offset, end)).count() as u64;
        rounded(end).saturating_sub(self.allocated) + holes * PAGE as u64
    }

    /// Bytes that are reserved.
    pub(super) fn reserved(&self) -> u64 {
        self.allocated - self.holes.len() as u64 * PAGE as u64
    }
}

impl Inode {
    /// A file that is synced with these bytes.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let mut inode = Inode::default();
        inode.write(bytes, 0);
        inode.sync();
        inode
    }

    pub(super) fn extent(&self) -> &Extent {
        self.extent.now()
    }

    /// The version of a page that the running system sees.
    fn page(&self, number: u64) -> &Page {
        let newest = self.dirty.get(&number).map(History::now);
        newest.or_else(|| self.durable.get(number)).map_or(&ZERO, |page| page)
    }

    /// Fills `buffer`; bytes past the end are zero.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) {
        for piece in pieces(offset, buffer.len()) {
            buffer[piece.source].copy_from_slice(&self.page(piece.page)[piece.within]);
        }
    }

    /// Writes all of `bytes`, growing the file where needed.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.write_sectors(bytes, offset, |_| true);
        self.reserve(offset, offset + bytes.len() as u64);
    }

    /// Applies an interrupted or failed write: nothing of it, all of it, or any of its sectors.
    pub(super) fn write_torn(&mut self, bytes: &[u8], offset: u64, random: &mut SmallRng) {
        let part = PartialEffect::draw(random);
        if part.takes(random) {
            self.reserve(offset, offset + bytes.len() as u64);
        }
        let room = usize::try_from(self.extent().length.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.write_sectors(&bytes[..bytes.len().min(room)], offset, |_| part.takes(random));
    }

    fn write_sectors(&mut self, bytes: &[u8], offset: u64, mut wanted: impl FnMut(usize) -> bool) {
        for piece in pieces(offset, bytes.len()) {
            let mut page = *self.page(piece.page);
            for sector in piece.within.start / SECTOR..piece.within.end.div_ceil(SECTOR) {
                if wanted(sector) {
                    let part = overlap(&piece.within, sector * SECTOR..(sector + 1) * SECTOR);
                    let from = piece.source.start + part.start - piece.within.start;
                    page[part.clone()].copy_from_slice(&bytes[from..from + part.len()]);
                }
            }
            let durable = || History::new(self.durable.get(piece.page).cloned().unwrap_or_else(|| shared(&ZERO)));
            self.dirty.entry(piece.page).or_insert_with(durable).push(shared(&page));
        }
    }

    fn reserve(&mut self, offset: u64, end: u64) {
        let before = self.extent();
        if end > before.length || before.growth(offset, end) > 0 {
            let mut extent = before.clone();
            extent.length = extent.length.max(end);
            extent.allocated = extent.allocated.max(rounded(end));
            if !extent.holes.is_empty() {
                Arc::make_mut(&mut extent.holes).retain(|page| !pages_of(offset, end).contains(page));
            }
            self.extent.push(extent);
        }
    }

    /// Reserves space for a range and extends the file to at least its end.
    pub(super) fn preallocate(&mut self, offset: u64, length: u64) {
        self.reserve(offset, offset + length);
    }

    /// Makes holes of the whole pages of a range.
    pub(super) fn punch(&mut self, offset: u64, end: u64) {
        let mut extent = self.extent().clone();
        let pages = offset.div_ceil(PAGE as u64)..end.min(extent.allocated) / PAGE as u64;
        Arc::make_mut(&mut extent.holes).extend(pages.clone());
        self.zero(pages.start * PAGE as u64, pages.end * PAGE as u64);
        self.extent.push(extent);
    }

    /// Cuts the file, or extends it by a hole.
    pub(super) fn set_len(&mut self, length: u64) {
        let mut extent = self.extent().clone();
        if length < extent.length {
            self.zero(length, extent.length);
            extent.allocated = extent.allocated.min(rounded(length));
            Arc::make_mut(&mut extent.holes).retain(|page| page * (PAGE as u64) < extent.allocated);
        }
        extent.length = length;
        self.extent.push(extent);
    }

    /// Writes zeros over the nonzero parts of `from..to`.
    fn zero(&mut self, from: u64, to: u64) {
        let first = from / PAGE as u64;
        let mut numbers = self.durable.numbers_from(first);
        numbers.extend(self.dirty.range(first..).map(|(number, _)| *number));
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let start = from.max(number * PAGE as u64);
            let end = to.min((number + 1) * PAGE as u64);
            if start < end {
                self.write_sectors(&ZERO[..(end - start) as usize], start, |_| true);
            }
        }
    }

    /// Makes contents and length durable.
    pub(super) fn sync(&mut self) {
        for (number, versions) in std::mem::take(&mut self.dirty) {
            self.durable.set(number, versions.now().clone());
        }
        self.extent.settle();
    }

    /// Applies a failed sync: the unsynced pages are gone, and the kernel believes that they are clean.
    pub(super) fn lose_unsynced(&mut self) {
        self.dirty.clear();
    }

    /// The file as the next machine or process finds it.
    pub(super) fn after(&self, how: Crash, random: &mut SmallRng) -> Inode {
        match how {
            Crash::KeepAll => self.clone(),
            Crash::DropAll => self.after_power_loss(None),
            Crash::Random(_) => self.after_power_loss(Some(random)),
        }
    }

    fn after_power_loss(&self, mut random: Option<&mut SmallRng>) -> Inode {
        let extent = self.extent.survivor(random.as_deref_mut()).clone();
        let mut durable = self.durable.clone();
        if let Some(random) = random {
            self.settle_pages(&mut durable, random);
        }
        durable.cut(extent.length);
        extent.holes.iter().for_each(|page| durable.set(*page, shared(&ZERO)));
        Inode { durable, dirty: BTreeMap::new(), extent: History::new(extent) }
    }

    /// Keeps or drops the file as a whole, or decides for each page.
    fn settle_pages(&self, durable: &mut Pages, random: &mut SmallRng) {
        let of_file = PartialEffect::draw(random);
        for (number, versions) in &self.dirty {
            let part = if let PartialEffect::Some = of_file { PartialEffect::draw(random) } else { of_file };
            match part {
                PartialEffect::Nothing => {}
                PartialEffect::Everything => durable.set(*number, versions.now().clone()),
                PartialEffect::Some => durable.set(*number, Arc::new(torn(versions, random))),
            }
        }
    }

    /// Changes bytes in every version, synced or not, as decay of the medium does.
    pub(super) fn damage(&mut self, offset: u64, len: usize, mut change: impl FnMut(usize, &mut u8)) {
        for piece in pieces(offset, len) {
            let mut alter = |page: &mut Page| {
                piece.within.clone().zip(piece.source.clone()).for_each(|(at, source)| change(source, &mut page[at]));
            };
            let mut page = self.durable.get(piece.page).map_or(ZERO, |page| **page);
            alter(&mut page);
            self.durable.set(piece.page, Arc::new(page));
            if let Some(versions) = self.dirty.get_mut(&piece.page) {
                versions.change(|page| alter(Arc::make_mut(page)));
            }
        }
    }

    /// Cuts every version of the file, synced or not.
    pub(super) fn truncate(&mut self, length: u64) {
        self.set_len(length);
        self.sync();
    }
}

/// A page in which each sector has one of the values that it had since the last sync.
fn torn(versions: &History<Arc<Page>>, random: &mut SmallRng) -> Page {
    let mut page = ZERO;
    for start in (0..PAGE).step_by(SECTOR) {
        let sector = start..start + SECTOR;
        page[sector.clone()].copy_from_slice(&versions.survivor(Some(random))[sector]);
    }
    page
}

/// The part of one page that a transfer touches.
struct PageSlice {
    page: u64,
    within: Range<usize>,
    source: Range<usize>,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = PageSlice> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % PAGE as u64) as usize;
        let count = (PAGE - start).min(len - done);
        let source = done..done + count;
        done += count;
        (count > 0).then_some(PageSlice { page: at / PAGE as u64, within: start..start + count, source })
    })
}

fn overlap(a: &Range<usize>, b: Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// The pages that a range touches.
fn pages_of(offset: u64, end: u64) -> Range<u64> {
    offset / PAGE as u64..end.div_ceil(PAGE as u64)
}

fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE as u64)
}
