//! Paged ranges: key ranges whose oldest records are in pages below the last level, the page tier, and not in tables.
//! In a paged range, `superseded_from` works like a range tombstone on older runs: table records at that run and at
//! older ones are superseded by the pages. A keyspace of the plain lsm engine has no paged ranges (adaptive.md, "Paged
//! ranges"; adaptive-protocol.md, invariants 6 and 7).

use std::{mem, ops::Range};

use ecotone_substrate::{
    Error, bug,
    codec::{Malformed, Reader, Writer},
    limits::{MAX_KEY, MAX_PAGED_RANGE_BYTES, MAX_PAGED_RANGES},
};

use crate::manifest::{
    InvalidEdit, RunId,
    paged_range_edit::{PagedRangeEdit, RangeEditKind},
};

/// Encodes a `superseded_from` of `None`.
const NONE_SUPERSEDED: u8 = 255;

/// A key range, the upper bound excluded, whose oldest records are in the page tier. Its records at `superseded_from`
/// and in older runs are superseded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagedRange {
    lower: Vec<u8>,
    upper: Vec<u8>,
    superseded_from: Option<RunId>,
}

/// Disjoint paged ranges, ascending. Adjacent ranges that touch differ in `superseded_from`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagedRanges {
    paged_ranges: Vec<PagedRange>,
}

/// The sorted runs in which records of a key are visible. The default is that of a key in no paged range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visibility {
    /// The youngest superseded run. `None` if all runs are visible.
    pub superseded_from: Option<RunId>,
    /// Whether the pages are the oldest sorted run of the key.
    pub has_pages: bool,
}

/// A key range in which the same sorted runs are visible: a paged range, or the gap between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeFragment<'v> {
    /// Its first key.
    pub lower: &'v [u8],
    /// The first key behind it, if there is one.
    pub upper: Option<&'v [u8]>,
    /// What is visible of its keys.
    pub visibility: Visibility,
}

impl Visibility {
    /// Whether records of a run are visible.
    #[inline]
    pub fn is_visible(self, run_id: RunId) -> bool {
        self.superseded_from.is_none_or(|superseded_from| run_id < superseded_from)
    }
}

impl<'v> RangeFragment<'v> {
    /// Its bounds, if it is a paged range.
    pub fn paged_bounds(&self) -> Option<(&'v [u8], &'v [u8])> {
        self.upper.filter(|_| self.visibility.has_pages).map(|upper| (self.lower, upper))
    }
}

impl PagedRange {
    /// The youngest superseded run. `None` if all runs are visible.
    pub fn superseded_from(&self) -> Option<RunId> {
        self.superseded_from
    }

    /// What is visible of its keys.
    pub fn visibility(&self) -> Visibility {
        Visibility { superseded_from: self.superseded_from, has_pages: true }
    }

    /// Its first key, and the first one behind it.
    pub fn bounds(&self) -> (&[u8], &[u8]) {
        (&self.lower, &self.upper)
    }

    /// Supersedes the records from a run on. Of two such runs the younger stays, which is the lesser.
    fn supersede(&mut self, superseded_from: RunId) {
        self.superseded_from = Some(self.superseded_from.map_or(superseded_from, |before| before.min(superseded_from)));
    }

    fn fragment(&self) -> RangeFragment<'_> {
        RangeFragment { lower: &self.lower, upper: Some(&self.upper), visibility: self.visibility() }
    }

    fn encode(&self, w: &mut Writer) {
        w.prefixed(&self.lower).prefixed(&self.upper);
        match self.superseded_from {
            Some(superseded_from) => superseded_from.encode(w),
            None => {
                w.u8(NONE_SUPERSEDED);
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<PagedRange, Malformed> {
        let (lower, upper) = (r.prefixed(MAX_KEY)?.to_vec(), r.prefixed(MAX_KEY)?.to_vec());
        let has_none = r.clone().u8()? == NONE_SUPERSEDED;
        let superseded_from = if has_none { r.u8().map(|_| None)? } else { Some(RunId::decode(r)?) };
        Ok(PagedRange { lower, upper, superseded_from })
    }
}

impl PagedRanges {
    /// What is visible of a key.
    #[inline]
    pub fn visibility_at(&self, key: &[u8]) -> Visibility {
        if self.paged_ranges.is_empty() {
            return Visibility::default();
        }
        self.at(key).map_or_else(Visibility::default, PagedRange::visibility)
    }

    /// The paged range that has a key.
    pub(super) fn at(&self, key: &[u8]) -> Option<&PagedRange> {
        self.paged_ranges.get(self.first_above(key)).filter(|paged_range| paged_range.lower.as_slice() <= key)
    }

    /// The paged range at an index, in ascending order.
    pub fn get(&self, number: usize) -> Option<&PagedRange> {
        self.paged_ranges.get(number)
    }

    /// The fragment that has a key.
    pub fn fragment_at(&self, key: &[u8]) -> RangeFragment<'_> {
        let place = self.first_above(key);
        self.paged_ranges
            .get(place)
            .filter(|paged_range| paged_range.lower.as_slice() <= key)
            .map_or_else(|| self.gap(place), PagedRange::fragment)
    }

    /// The fragment that has the keys next below one. `None` stands for the end of all keys.
    pub fn fragment_below(&self, key: Option<&[u8]>) -> RangeFragment<'_> {
        let place = key.map_or(self.paged_ranges.len(), |key| self.first_from(key));
        let before = place.checked_sub(1).and_then(|before| self.paged_ranges.get(before));
        let reaches = |paged_range: &&PagedRange| key.is_some_and(|key| key <= paged_range.upper.as_slice());
        before.filter(reaches).map_or_else(|| self.gap(place), PagedRange::fragment)
    }

    /// The gap before the paged range at an index.
    fn gap(&self, place: usize) -> RangeFragment<'_> {
        let before = place.checked_sub(1).and_then(|before| self.paged_ranges.get(before));
        let lower = before.map_or(&[][..], |paged_range| &paged_range.upper);
        let upper = self.paged_ranges.get(place).map(|paged_range| paged_range.lower.as_slice());
        RangeFragment { lower, upper, visibility: Visibility::default() }
    }

    /// Whether all records of a run in a key range are superseded, both bounds included.
    pub fn supersedes_all(&self, place: RunId, first: &[u8], last: &[u8]) -> bool {
        let mut fragment = self.fragment_at(first);
        loop {
            if fragment.visibility.is_visible(place) {
                return false;
            }
            match fragment.upper {
                Some(upper) if upper <= last => fragment = self.fragment_at(upper),
                _ => return true,
            }
        }
    }

    /// Whether a run is visible for all keys from one on.
    pub fn is_visible_from(&self, place: RunId, key: &[u8]) -> bool {
        self.paged_ranges[self.first_above(key)..].iter().all(|paged_range| paged_range.visibility().is_visible(place))
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &PagedRange> {
        self.paged_ranges.iter()
    }

    /// The lower and upper bounds of all ranges, ascending.
    pub fn bounds(&self) -> impl Iterator<Item = &[u8]> {
        self.paged_ranges.iter().flat_map(|paged_range| [paged_range.lower.as_slice(), paged_range.upper.as_slice()])
    }

    /// The gaps before, between and behind the paged ranges that can have keys.
    pub fn gaps(&self) -> impl Iterator<Item = RangeFragment<'_>> {
        (0..=self.paged_ranges.len())
            .map(|place| self.gap(place))
            .filter(|gap| gap.upper.is_none_or(|upper| gap.lower < upper))
    }

    /// The lowest ordinal that is above every `superseded_from` (adaptive-protocol.md, invariant 7).
    pub(super) fn next_ordinal(&self) -> u64 {
        let above = |paged_range: &PagedRange| match paged_range.superseded_from {
            Some(RunId::L0(ordinal)) if !bug!(RunBelowSuperseded) => ordinal + 1,
            _ => 0,
        };
        self.paged_ranges.iter().map(above).max().unwrap_or(0)
    }

    /// Applies edits in order. After an error the value must not be used any more.
    ///
    /// # Errors
    /// If one is invalid.
    pub fn apply(&mut self, edits: &[PagedRangeEdit]) -> Result<(), InvalidEdit> {
        edits.iter().try_for_each(|edit| self.edit(edit))?;
        self.join();
        self.check_limits()
    }

    /// Whether the limits allow a range to be split at any two keys.
    pub fn can_split(&self) -> bool {
        self.check_can_split().is_ok()
    }

    /// Checks that the limits allow a range to be split at any two keys.
    ///
    /// # Errors
    /// The limit that would be exceeded.
    pub fn check_can_split(&self) -> Result<(), Error> {
        let (count, bytes) = (self.paged_ranges.len() + 2, self.bounds().map(<[u8]>::len).sum::<usize>() + 4 * MAX_KEY);
        let limit = |what, limit, actual| Error::Limit { what, limit: limit as u64, actual: actual as u64 };
        match (count, bytes) {
            (..=MAX_PAGED_RANGES, ..=MAX_PAGED_RANGE_BYTES) => Ok(()),
            (..=MAX_PAGED_RANGES, _) => {
                Err(limit("the bytes of the keys between which ranges are pages", MAX_PAGED_RANGE_BYTES, bytes))
            }
            _ => Err(limit("the number of ranges that are pages", MAX_PAGED_RANGES, count)),
        }
    }

    /// Checks the limits on the number of ranges and the bytes of their bounds, which a root has to hold.
    fn check_limits(&self) -> Result<(), InvalidEdit> {
        let bytes = self.bounds().map(<[u8]>::len).sum::<usize>();
        match (self.paged_ranges.len(), bytes) {
            (..=MAX_PAGED_RANGES, ..=MAX_PAGED_RANGE_BYTES) => Ok(()),
            (..=MAX_PAGED_RANGES, _) => Err("the bounds of paged ranges are too long"),
            _ => Err("there are too many paged ranges"),
        }
    }

    /// Appends the ranges to a root.
    pub fn encode(&self, w: &mut Writer) {
        w.varint(self.paged_ranges.len() as u64);
        self.paged_ranges.iter().for_each(|paged_range| paged_range.encode(w));
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else, or does not fit together.
    pub fn decode(r: &mut Reader<'_>) -> Result<PagedRanges, Malformed> {
        let start = r.position();
        let paged_ranges = r.list(MAX_PAGED_RANGES, PagedRange::decode)?;
        let is_apart = |left: &PagedRange, right: &PagedRange| {
            left.upper < right.lower || (left.upper == right.lower && left.superseded_from != right.superseded_from)
        };
        if !paged_ranges.iter().all(|paged_range| paged_range.lower < paged_range.upper) {
            return Err(Malformed::new(start, "a paged range has no keys"));
        }
        if !paged_ranges.is_sorted_by(is_apart) {
            return Err(Malformed::new(start, "paged ranges do not ascend, or two are one"));
        }
        let paged_ranges = PagedRanges { paged_ranges };
        paged_ranges.check_limits().map_err(|what| Malformed::new(start, what))?;
        Ok(paged_ranges)
    }

    fn edit(&mut self, edit: &PagedRangeEdit) -> Result<(), InvalidEdit> {
        let PagedRangeEdit { lower, upper, kind } = edit;
        if lower >= upper {
            return Err("an edit changes an empty range of keys");
        }
        if let RangeEditKind::SupersedeContained(superseded_from) = kind {
            self.join();
            self.supersede_within(lower, upper, *superseded_from);
            return Ok(());
        }
        self.cut(lower);
        self.cut(upper);
        let part = self.first_above(lower)..self.first_from(upper);
        match kind {
            RangeEditKind::Add(superseded_from) if part.is_empty() => {
                self.paged_ranges.insert(
                    part.start,
                    PagedRange { lower: lower.clone(), upper: upper.clone(), superseded_from: Some(*superseded_from) },
                );
            }
            RangeEditKind::Add(_) => return Err("a range is added that is paged in part"),
            _ if !self.is_whole(part.clone(), lower, upper) => {
                return Err("a range is changed that is not paged as a whole");
            }
            RangeEditKind::Supersede(superseded_from) => {
                self.paged_ranges[part].iter_mut().for_each(|paged_range| paged_range.supersede(*superseded_from))
            }
            RangeEditKind::Reactivate => {
                self.paged_ranges[part].iter_mut().for_each(|paged_range| paged_range.superseded_from = None)
            }
            RangeEditKind::Remove => drop(self.paged_ranges.drain(part)),
            RangeEditKind::SupersedeContained(_) => {}
        }
        Ok(())
    }

    /// No range is split. Between the flush that asks for this edit and its record, other edits may have changed the
    /// ranges, and a bound of then may be none now.
    fn supersede_within(&mut self, lower: &[u8], upper: &[u8], superseded_from: RunId) {
        let part = self.first_from(lower)
            ..self.paged_ranges.partition_point(|paged_range| paged_range.upper.as_slice() <= upper);
        let paged_ranges = self.paged_ranges.get_mut(part).unwrap_or_default();
        paged_ranges
            .iter_mut()
            .filter(|paged_range| paged_range.superseded_from.is_some())
            .for_each(|paged_range| paged_range.supersede(superseded_from));
    }

    /// Index of the first range that ends above a key.
    fn first_above(&self, key: &[u8]) -> usize {
        self.paged_ranges.partition_point(|paged_range| paged_range.upper.as_slice() <= key)
    }

    /// Index of the first range that begins at a key or above it.
    fn first_from(&self, key: &[u8]) -> usize {
        self.paged_ranges.partition_point(|paged_range| paged_range.lower.as_slice() < key)
    }

    /// Splits the range that has a key inside.
    fn cut(&mut self, key: &[u8]) {
        let place = self.first_above(key);
        if let Some(paged_range) =
            self.paged_ranges.get_mut(place).filter(|paged_range| paged_range.lower.as_slice() < key)
        {
            let right = PagedRange { lower: key.to_vec(), ..paged_range.clone() };
            paged_range.upper = key.to_vec();
            self.paged_ranges.insert(place + 1, right);
        }
    }

    /// Whether these ranges hold all keys between two bounds, where the first begins and the last ends.
    fn is_whole(&self, part: Range<usize>, lower: &[u8], upper: &[u8]) -> bool {
        let paged_ranges = &self.paged_ranges[part];
        let ends = paged_ranges
            .first()
            .zip(paged_ranges.last())
            .map(|(first, last)| (first.lower.as_slice(), last.upper.as_slice()));
        ends == Some((lower, upper)) && paged_ranges.windows(2).all(|pair| pair[0].upper == pair[1].lower)
    }

    /// Joins adjacent ranges that touch and have the same `superseded_from`.
    fn join(&mut self) {
        self.paged_ranges.dedup_by(|right, left| {
            let alike = left.upper == right.lower && left.superseded_from == right.superseded_from;
            if alike {
                left.upper = mem::take(&mut right.upper);
            }
            alike
        });
    }
}
