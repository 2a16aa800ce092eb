//! What goes into a segment that is claimed.

use std::ops::Range;

use ecotone_substrate::limits::PAGE;

use super::{
    Tree,
    cache::Stretch,
    dirty::{DirtyRecord, DirtyRecords},
    index::Home,
    store::{Located, Stored},
};

/// Pages that stay as they are together, at least.
const LEAST_KEPT: u8 = 4;
/// Entries of a leaf of the dirty index, in the mean, from which on its keys have come in order. Of keys in no order it
/// has between half and all of 480.
const PACKED: usize = 420;

/// A claimed segment, or some of its pages, and records that come over what these have.
#[derive(Debug)]
pub(crate) struct Share<'t> {
    pub(crate) at: Located,
    /// The other pages of the segment, which stay as they are.
    pub(crate) kept: Vec<Located>,
    /// Ascending.
    pub(crate) records: DirtyRecords,
    /// Of the base pages that get some, ascending.
    pub(crate) portions: Vec<Portion>,
    /// What was taken from the cache for it, if anything was.
    pub(crate) taken: Option<Taken<'t>>,
    /// Whether what was taken had come in the order of its keys, as the dirty index tells: its leaves are full then.
    pub(crate) is_packed: bool,
}

/// Records of one base page.
#[derive(Debug)]
pub(crate) struct Portion {
    pub(crate) position: u8,
    pub(crate) home: Home,
    /// Which records of the share; there is one.
    places: Range<usize>,
    /// The pages as they are on disk, once they were read.
    pub(crate) stored: Option<Stored>,
}

impl<'t> Share<'t> {
    /// Of a segment into which nothing goes.
    pub(crate) fn empty(at: Located) -> Share<'t> {
        Share::new(at, DirtyRecords::default(), None)
    }

    /// Deals records, which ascend, out to the pages of their keys.
    pub(crate) fn new(at: Located, records: DirtyRecords, taken: Option<Taken<'t>>) -> Share<'t> {
        let (mut portions, mut start) = (Vec::new(), 0);
        while start < records.len() {
            let position = at.segment.position_of(&at.lower, records.get(start).key);
            let end = records.count_below(at.stretch(position).upper.as_deref());
            let places = start..end.max(start + 1);
            start = places.end;
            portions.push(Portion { position, home: at.segment.home(position), places, stored: None });
        }
        Share { at, kept: Vec::new(), records, portions, taken, is_packed: false }
    }

    /// Where the whole segment begins.
    pub(crate) fn begin(&self) -> &[u8] {
        self.kept.first().map_or(&self.at.lower, |kept| kept.lower.as_slice().min(&self.at.lower))
    }

    /// The records of a page.
    pub(crate) fn records_of(&self, portion: &Portion) -> impl ExactSizeIterator<Item = DirtyRecord<'_>> + Clone {
        self.records.within(portion.places.clone())
    }

    /// A share with the records of one page.
    pub(crate) fn of_page(&self, portion: &Portion, taken: Option<Taken<'t>>) -> Share<'t> {
        Share::new(self.at.clone(), self.records.part(portion.places.clone()), taken)
    }

    /// What was taken for a page, which is the next one from the first on; for the last one all that is left.
    pub(crate) fn take_part(&mut self, number: usize) -> Option<Taken<'t>> {
        let end = self.portions.get(number + 1).and_then(|_| self.at.stretch(self.portions[number].position).upper);
        match end {
            Some(end) => self.taken.as_mut()?.split(end),
            None => self.taken.take(),
        }
    }

    /// Whether less than half of the pages get records.
    pub(crate) fn is_thin(&self) -> bool {
        2 * self.portions.len() < usize::from(self.at.segment.base_count())
    }

    pub(crate) fn base_count(&self) -> usize {
        self.at.segment.base_count().into()
    }

    /// Lets the pages on both sides of those that get records stay as they are, where these become more pages than
    /// there are: as where keys arrive in order.
    pub(crate) fn narrow(&mut self) {
        let [Some(first), Some(last)] = [self.portions.first(), self.portions.last()] else { return };
        let (first, end, count) = (first.position, last.position + 1, self.at.segment.base_count());
        if self.records.bytes() <= usize::from(end - first) * 2 * PAGE {
            return;
        }
        // What would be a small segment for good comes along.
        let first = if first < LEAST_KEPT { 0 } else { first };
        let end = if count - end < LEAST_KEPT { count } else { end };
        let kept = [0..first, end..count].into_iter().filter(|positions| !positions.is_empty());
        let kept: Option<Vec<Located>> = kept.map(|positions| self.at.part(positions)).collect();
        let (Some(kept), Some(at)) = (kept, self.at.part(first..end)) else { return };
        (self.at, self.kept) = (at, kept);
        self.portions.iter_mut().for_each(|portion| portion.position -= first);
    }

    /// Whether the pages at a position were read.
    fn has_read(&self, position: u8) -> bool {
        self.portions.iter().any(|portion| portion.position == position && portion.stored.is_some())
    }

    /// The homes that are to be read.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Home> {
        (0..self.at.segment.base_count())
            .filter(|position| !self.has_read(*position))
            .map(|position| self.at.segment.home(position))
    }

    /// The pages of all homes, of which those that were missing come from elsewhere.
    pub(crate) fn all_stored(&mut self, read: &mut impl Iterator<Item = Stored>) -> Vec<Stored> {
        let mut portions = self.portions.iter_mut().peekable();
        let mut stored = |position| portions.next_if(|portion| portion.position == position)?.stored.take();
        (0..self.at.segment.base_count()).filter_map(|position| stored(position).or_else(|| read.next())).collect()
    }

    /// Its records, which need not be written any more.
    pub(crate) fn settle(&mut self) {
        self.taken.take().into_iter().for_each(Taken::settle);
    }
}

/// Keys of which what was dirty is being written. It is dirty again when this is dropped, unless it was settled before.
#[derive(Debug)]
pub(crate) struct Taken<'t> {
    tree: &'t Tree,
    /// None once it is settled.
    stretch: Option<Stretch>,
}

impl<'t> Taken<'t> {
    /// The first of its keys, up to one; the others stay.
    fn split(&mut self, end: Vec<u8>) -> Option<Taken<'t>> {
        let stretch = self.stretch.as_mut()?;
        let lower = std::mem::replace(&mut stretch.lower, end.clone());
        Some(Taken { tree: self.tree, stretch: Some(Stretch { lower, upper: Some(end) }) })
    }

    /// What was taken is in its pages, and these can be found.
    pub(crate) fn settle(mut self) {
        self.stretch.take().into_iter().for_each(|stretch| self.tree.end_write(&stretch));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.stretch.take().into_iter().for_each(|stretch| self.tree.abort_write(&stretch));
    }
}

impl Tree {
    /// Takes what is dirty of a claimed segment, about `most` bytes of it, from its beginning on. Gives what is left of
    /// it, too.
    pub(crate) fn take(&self, at: Located, most: usize) -> (Share<'_>, Option<Stretch>) {
        let stretch = at.all();
        let (records, taken) = self.cache.begin_write(self.space(), &stretch, most);
        let left = stretch.behind(&taken);
        let (entries, leaves) = if records.bytes() > 4 * PAGE { self.cache.fill(self.space(), &taken) } else { (0, 0) };
        let taken = Taken { tree: self, stretch: Some(taken) };
        let is_packed = leaves > 1 && entries >= leaves * PACKED;
        (Share { is_packed, ..Share::new(at, records, Some(taken)) }, left)
    }
}
