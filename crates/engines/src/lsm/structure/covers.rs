//! Ranges of keys whose oldest records are not in tables but in pages, which whoever uses the lsm keeps below its last
//! level (decision 14, "Shape"; decision 15, invariants 6 and 7). A keyspace of the lsm engine has none.

use std::{mem, ops::Range};

use ecotone_substrate::{
    Error, bug,
    codec::{Malformed, Reader, Writer},
    limits::{MAX_COVER_BYTES, MAX_COVERS, MAX_KEY},
};

use super::{
    Misfit, Place,
    cover_edit::{Become, CoverEdit},
};

/// In place of a floor, if there is none.
const NO_FLOOR: u8 = 255;

/// A range of keys, the upper bound excluded. Of the records of its keys those do not count that are at its floor or at
/// an older place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    lower: Vec<u8>,
    upper: Vec<u8>,
    floor: Option<Place>,
}

/// Disjoint covers, ascending. Neighbours that touch have different floors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covers {
    covers: Vec<Cover>,
}

/// A range of keys of which the same places count: a cover, or what lies between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch<'c> {
    /// Its first key.
    pub lower: &'c [u8],
    /// The first key behind it, if there is one.
    pub upper: Option<&'c [u8]>,
    /// What covers it.
    pub cover: Option<&'c Cover>,
}

impl Cover {
    /// The youngest place that does not count. Without one all count.
    pub fn floor(&self) -> Option<Place> {
        self.floor
    }

    /// Whether records at a place count.
    #[inline]
    pub fn counts(&self, place: Place) -> bool {
        self.floor.is_none_or(|floor| place < floor)
    }

    /// Its first key, and the first one behind it.
    pub fn bounds(&self) -> (&[u8], &[u8]) {
        (&self.lower, &self.upper)
    }

    /// The younger of two floors stays, which is the lesser.
    fn raise(&mut self, floor: Place) {
        self.floor = Some(self.floor.map_or(floor, |before| before.min(floor)));
    }

    fn stretch(&self) -> Stretch<'_> {
        Stretch { lower: &self.lower, upper: Some(&self.upper), cover: Some(self) }
    }

    fn encode(&self, w: &mut Writer) {
        w.prefixed(&self.lower).prefixed(&self.upper);
        match self.floor {
            Some(floor) => floor.encode(w),
            None => {
                w.u8(NO_FLOOR);
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Cover, Malformed> {
        let (lower, upper) = (r.prefixed(MAX_KEY)?.to_vec(), r.prefixed(MAX_KEY)?.to_vec());
        let has_none = r.clone().u8()? == NO_FLOOR;
        let floor = if has_none { r.u8().map(|_| None)? } else { Some(Place::decode(r)?) };
        Ok(Cover { lower, upper, floor })
    }
}

impl Covers {
    /// The one that has a key.
    #[inline]
    pub fn at(&self, key: &[u8]) -> Option<&Cover> {
        self.covers.get(self.first_above(key)).filter(|cover| cover.lower.as_slice() <= key)
    }

    /// One by its number, from the lowest on.
    pub fn get(&self, number: usize) -> Option<&Cover> {
        self.covers.get(number)
    }

    /// The stretch that has a key.
    pub fn stretch_at(&self, key: &[u8]) -> Stretch<'_> {
        let place = self.first_above(key);
        self.covers
            .get(place)
            .filter(|cover| cover.lower.as_slice() <= key)
            .map_or_else(|| self.gap(place), Cover::stretch)
    }

    /// The stretch that has the keys next below one; none is above all.
    pub fn stretch_below(&self, key: Option<&[u8]>) -> Stretch<'_> {
        let place = key.map_or(self.covers.len(), |key| self.first_from(key));
        let before = place.checked_sub(1).and_then(|before| self.covers.get(before));
        let reaches = |cover: &&Cover| key.is_some_and(|key| key <= cover.upper.as_slice());
        before.filter(reaches).map_or_else(|| self.gap(place), Cover::stretch)
    }

    /// What lies before a cover and behind the one before it.
    fn gap(&self, place: usize) -> Stretch<'_> {
        let before = place.checked_sub(1).and_then(|before| self.covers.get(before));
        let lower = before.map_or(&[][..], |cover| &cover.upper);
        Stretch { lower, upper: self.covers.get(place).map(|cover| cover.lower.as_slice()), cover: None }
    }

    /// Whether nothing counts at a place of the keys from one to another, that included.
    pub fn hides(&self, place: Place, first: &[u8], last: &[u8]) -> bool {
        let mut stretch = self.stretch_at(first);
        loop {
            match (stretch.cover, stretch.upper) {
                (Some(cover), Some(upper)) if !cover.counts(place) => {
                    if last < upper {
                        return true;
                    }
                    stretch = self.stretch_at(upper);
                }
                _ => return false,
            }
        }
    }

    /// Whether records from a key on count at a place.
    pub fn counts_from(&self, place: Place, key: &[u8]) -> bool {
        self.covers[self.first_above(key)..].iter().all(|cover| cover.counts(place))
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Cover> {
        self.covers.iter()
    }

    /// The first keys of all, and the first ones behind them.
    pub fn bounds(&self) -> impl Iterator<Item = &[u8]> {
        self.covers.iter().flat_map(|cover| [cover.lower.as_slice(), cover.upper.as_slice()])
    }

    /// What lies before, between and behind them, where there can be keys.
    pub fn gaps(&self) -> impl Iterator<Item = Stretch<'_>> {
        (0..=self.covers.len())
            .map(|place| self.gap(place))
            .filter(|gap| gap.upper.is_none_or(|upper| gap.lower < upper))
    }

    /// The lowest ordinal that is above all floors (decision 15, invariant 7).
    pub(super) fn next_ordinal(&self) -> u64 {
        let above = |cover: &Cover| match cover.floor {
            Some(Place::Run(ordinal)) if !bug!(OrdinalBelowFloor) => ordinal + 1,
            _ => 0,
        };
        self.covers.iter().map(above).max().unwrap_or(0)
    }

    /// Makes edits, one after the other. After an error it is of no use any more.
    ///
    /// # Errors
    /// If one does not fit.
    pub fn apply(&mut self, edits: &[CoverEdit]) -> Result<(), Misfit> {
        edits.iter().try_for_each(|edit| self.edit(edit))?;
        self.join();
        self.check_room()
    }

    /// Whether one of them may be cut at two keys, whatever these are.
    pub fn has_room(&self) -> bool {
        self.check_room_to_cut().is_ok()
    }

    /// The same.
    ///
    /// # Errors
    /// What there is too much of, if there is.
    pub fn check_room_to_cut(&self) -> Result<(), Error> {
        let (count, bytes) = (self.covers.len() + 2, self.bounds().map(<[u8]>::len).sum::<usize>() + 4 * MAX_KEY);
        let limit = |what, limit, actual| Error::Limit { what, limit: limit as u64, actual: actual as u64 };
        match (count, bytes) {
            (..=MAX_COVERS, ..=MAX_COVER_BYTES) => Ok(()),
            (..=MAX_COVERS, _) => {
                Err(limit("the bytes of the keys between which ranges are pages", MAX_COVER_BYTES, bytes))
            }
            _ => Err(limit("the number of ranges that are pages", MAX_COVERS, count)),
        }
    }

    /// Whether there are no more of them, and with no longer bounds, than a root may have.
    fn check_room(&self) -> Result<(), Misfit> {
        let bytes = self.bounds().map(<[u8]>::len).sum::<usize>();
        match (self.covers.len(), bytes) {
            (..=MAX_COVERS, ..=MAX_COVER_BYTES) => Ok(()),
            (..=MAX_COVERS, _) => Err("the bounds of covers are too long"),
            _ => Err("there are too many covers"),
        }
    }

    /// Appends them to a root.
    pub fn encode(&self, w: &mut Writer) {
        w.varint(self.covers.len() as u64);
        self.covers.iter().for_each(|cover| cover.encode(w));
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else, or does not fit together.
    pub fn decode(r: &mut Reader<'_>) -> Result<Covers, Malformed> {
        let start = r.position();
        let covers = r.list(MAX_COVERS, Cover::decode)?;
        let is_apart = |left: &Cover, right: &Cover| {
            left.upper < right.lower || (left.upper == right.lower && left.floor != right.floor)
        };
        if !covers.iter().all(|cover| cover.lower < cover.upper) {
            return Err(Malformed::new(start, "a cover has no keys"));
        }
        if !covers.is_sorted_by(is_apart) {
            return Err(Malformed::new(start, "covers do not ascend, or two are one"));
        }
        let covers = Covers { covers };
        covers.check_room().map_err(|what| Malformed::new(start, what))?;
        Ok(covers)
    }

    fn edit(&mut self, edit: &CoverEdit) -> Result<(), Misfit> {
        let CoverEdit { lower, upper, becomes } = edit;
        if lower >= upper {
            return Err("a range of keys that is covered, or no more, is empty");
        }
        if let Become::Lifted(floor) = becomes {
            self.join();
            self.lift(lower, upper, *floor);
            return Ok(());
        }
        self.cut(lower);
        self.cut(upper);
        let part = self.first_above(lower)..self.first_from(upper);
        match becomes {
            Become::Covered(floor) if part.is_empty() => {
                self.covers
                    .insert(part.start, Cover { lower: lower.clone(), upper: upper.clone(), floor: Some(*floor) });
            }
            Become::Covered(_) => return Err("a range comes to be covered that is, in part"),
            _ if !self.is_whole(part.clone(), lower, upper) => {
                return Err("a range is changed that is not all covered");
            }
            Become::Raised(floor) => self.covers[part].iter_mut().for_each(|cover| cover.raise(*floor)),
            Become::Open => self.covers[part].iter_mut().for_each(|cover| cover.floor = None),
            Become::Uncovered => drop(self.covers.drain(part)),
            Become::Lifted(_) => {}
        }
        Ok(())
    }

    /// Nothing is cut: between the flush that asks for it and its record others may have changed what is there, and a
    /// bound of then may be none of now.
    fn lift(&mut self, lower: &[u8], upper: &[u8], floor: Place) {
        let part = self.first_from(lower)..self.covers.partition_point(|cover| cover.upper.as_slice() <= upper);
        let covers = self.covers.get_mut(part).unwrap_or_default();
        covers.iter_mut().filter(|cover| cover.floor.is_some()).for_each(|cover| cover.raise(floor));
    }

    /// The first that ends above a key.
    fn first_above(&self, key: &[u8]) -> usize {
        self.covers.partition_point(|cover| cover.upper.as_slice() <= key)
    }

    /// The first that begins at a key or above it.
    fn first_from(&self, key: &[u8]) -> usize {
        self.covers.partition_point(|cover| cover.lower.as_slice() < key)
    }

    /// Makes two of the one that has a key within.
    fn cut(&mut self, key: &[u8]) {
        let place = self.first_above(key);
        if let Some(cover) = self.covers.get_mut(place).filter(|cover| cover.lower.as_slice() < key) {
            let right = Cover { lower: key.to_vec(), ..cover.clone() };
            cover.upper = key.to_vec();
            self.covers.insert(place + 1, right);
        }
    }

    /// Whether these leave nothing out between two keys, at which some begin and end.
    fn is_whole(&self, part: Range<usize>, lower: &[u8], upper: &[u8]) -> bool {
        let covers = &self.covers[part];
        let ends =
            covers.first().zip(covers.last()).map(|(first, last)| (first.lower.as_slice(), last.upper.as_slice()));
        ends == Some((lower, upper)) && covers.windows(2).all(|pair| pair[0].upper == pair[1].lower)
    }

    /// Makes one of neighbours that touch and are alike.
    fn join(&mut self) {
        self.covers.dedup_by(|right, left| {
            let alike = left.upper == right.lower && left.floor == right.floor;
            if alike {
                left.upper = mem::take(&mut right.upper);
            }
            alike
        });
    }
}
