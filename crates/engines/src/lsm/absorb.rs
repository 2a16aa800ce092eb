//! Bringing what counts of a range into what is below the tables (decision 14, "Turning tables into pages"; decision 15, invariants 4, 6, 11, 12 and 15).

use std::{iter, ops::Bound, sync::Arc};

use ecotone_substrate::{Error, Result, bug, limits::MAX_LEVELS};

use super::{
    base::{Base, Moved},
    handle::Handle,
    merged::Merged,
    records::Lsm,
    stored::{Reading, Stored},
    structure::{Become, Change, Cover, CoverEdit, Covers, Place, Stretch},
    version::{Ranged, Run, Version},
};
use crate::rest::{Direction, Rest};

/// A range of which the same places count, and is covered or not.
struct Part {
    lower: Vec<u8>,
    upper: Vec<u8>,
    is_covered: bool,
}

impl Lsm {
    /// Has all records of a range below the tables that are in tables and count. What is covered already is absorbed by whole covers. Nothing is done where there
    /// is nothing below.
    pub(crate) fn absorb(self: &Arc<Self>, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while let Some(base) = self.base.as_ref().filter(|_| *from < *upper) {
            // One turn for each part, so that what is more urgent comes between.
            let turn = self.compacting.lock();
            let version = self.present.get().version;
            let part = Part::at(version.covers(), &from, upper);
            from.clone_from(&part.upper);
            let absorbed = self.absorb_part(base, &version, part);
            self.end_turn(turn);
            absorbed?;
        }
        self.files.conclude()
    }

    /// Empties what is below the tables of ranges that nothing covers: what is left of absorptions that were interrupted (decision 15, invariant 17).
    pub(crate) fn clear_rests(self: &Arc<Self>) -> Result<()> {
        let Some(base) = &self.base else { return Ok(()) };
        let is_rest = |gap: &Stretch<'_>| !base.is_carved(gap.lower, gap.upper);
        if !self.version().covers().gaps().any(|gap| is_rest(&gap)) {
            return Ok(());
        }
        let turn = self.compacting.lock();
        let version = self.version();
        let mut rests = version.covers().gaps().filter(is_rest);
        let cleared = rests.try_for_each(|gap| base.carve(gap.lower, gap.upper));
        base.keep_apart(version.covers());
        self.end_turn(turn);
        cleared
    }

    /// Absorbs what a job would bring to where it does not count: records from these places in a range of keys, going to a level. Whether there was any; then the
    /// tables are others. The turn is held.
    pub(super) fn absorb_before(&self, version: &Version<Handle>, inputs: &[(Place, Run<Handle>)], to: Place) -> Result<bool> {
        let Some(base) = &self.base else { return Ok(false) };
        let sinks = |cover: &&Cover| {
            !bug!(SinkBelowFloor)
                && !cover.counts(to)
                && inputs.iter().any(|(place, run)| cover.counts(*place) && run.reaches_into(cover.bounds()))
        };
        let covers: Vec<Part> = version.covers().iter().filter(sinks).map(Part::of).collect();
        let is_any = !covers.is_empty();
        for part in covers {
            let version = self.present.get().version;
            self.absorb_part(base, &version, part)?;
        }
        Ok(is_any)
    }

    fn absorb_part(&self, base: &Arc<dyn Base>, version: &Version<Handle>, part: Part) -> Result<()> {
        let absorbed = self.bring_down(base, version, part);
        // Bounds go with covers that are joined, and with a range that was carved in vain.
        base.keep_apart(self.version().covers());
        absorbed
    }

    fn bring_down(&self, base: &Arc<dyn Base>, version: &Version<Handle>, part: Part) -> Result<()> {
        let Part { lower, upper, is_covered } = part;
        let cover = version.covers().stretch_at(&lower).cover;
        let counting = version.counting_in(cover).filter(|(_, run)| run.reaches_into((&lower, &upper)));
        let runs: Vec<_> = counting.map(|(_, run)| run.clone()).collect();
        if is_covered && runs.is_empty() {
            return Ok(());
        }
        // Without runs the oldest level stands for all (invariant 7).
        let youngest = version.runs().map(|(place, _)| place).next().filter(|place| place.is_run());
        let floor = youngest.unwrap_or(Place::Level(MAX_LEVELS));
        let becomes = if is_covered { Become::Raised(floor) } else { Become::Covered(floor) };
        let mut covers = Covers::clone(version.covers());
        let edits = vec![CoverEdit { lower: lower.clone(), upper: upper.clone(), becomes }];
        covers.apply(&edits).map_err(|what| Error::Invalid(format!("a range of keys cannot be covered: {what}")))?;
        if !is_covered {
            base.carve(&lower, Some(&upper))?;
        }
        let rest = Rest::new((Bound::Included(lower.clone()), Bound::Excluded(upper.clone())));
        let spent: Vec<_> = version.spent(&covers).collect();
        let change = Change { goes: spent.iter().map(|table| table.file()).collect(), covers: edits, ..Change::default() };
        let moved = self.move_down(&**base, &runs, rest, is_covered);
        moved.and_then(|()| self.install(&change, &[], |version| self.present.installed(version))).inspect_err(|_| {
            // What has come counts nowhere, and takes space. If that fails as well, the next that covers the range does it, or the next opening.
            let _ = if is_covered { Ok(()) } else { base.carve(&lower, Some(&upper)) };
        })?;
        spent.into_iter().for_each(|table| self.files.loader().heat.forget(table));
        Ok(())
    }

    /// Moves the records of a range. A tombstone goes along where there may be something to remove.
    fn move_down(&self, base: &dyn Base, runs: &[Run<Handle>], rest: Rest, with_tombstones: bool) -> Result<()> {
        let way = (Direction::Up, Reading::Ahead);
        let begin = |run| Stored::begin(self.files.environment(), run, &rest, way);
        let mut merged = Merged::new(runs.iter().map(begin).collect::<Result<_>>()?, Direction::Up, 0);
        let next = || {
            let record = merged.first().and_then(Stored::record).filter(|(key, _)| rest.contains(key));
            let (key, value) = record.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))?;
            Some(merged.pass().map(|()| (key, value)))
        };
        let is_wanted = |record: &Result<Moved>| with_tombstones || record.as_ref().map_or(true, |(_, value)| value.is_some());
        base.absorb(&mut iter::from_fn(next).filter(is_wanted)).map(|_| ())
    }
}

impl Part {
    /// What begins at a key and ends below another: a cover as a whole, though it may begin and end elsewhere.
    fn at(covers: &Covers, from: &[u8], upper: &[u8]) -> Part {
        let stretch = covers.stretch_at(from);
        let end = stretch.upper.map_or(upper, |end| end.min(upper));
        stretch.cover.map_or_else(|| Part { lower: from.to_vec(), upper: end.to_vec(), is_covered: false }, Part::of)
    }

    fn of(cover: &Cover) -> Part {
        let (lower, upper) = cover.bounds();
        Part { lower: lower.to_vec(), upper: upper.to_vec(), is_covered: true }
    }
}
