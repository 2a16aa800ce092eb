//! Which tables are compacted next (decision 11, "Picking").

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc};

use ecotone_substrate::table::File;

use crate::lsm::{
    structure::Place,
    version::{Ranged, Run, Version},
};

/// Runs of level 0 with which it is compacted if it has bytes enough, and with which it is in any case.
const FEW_RUNS: usize = 4;
const MANY_RUNS: usize = 8;

/// Tables of one place.
type Placed<T> = (Place, Vec<Arc<T>>);

/// Tables that go into a level together.
#[derive(Debug)]
pub(in crate::lsm) struct Piece<T> {
    /// From young to old, and where they are; those of the level come last.
    pub(in crate::lsm) inputs: Vec<(Place, Run<T>)>,
    /// The depth of the level.
    pub(in crate::lsm) depth: u8,
    /// Bytes that are not in the level yet, and of all.
    moved: u64,
    all: u64,
}

impl<T: Ranged> Piece<T> {
    /// Of tables by their places, from young to old, and what they overlap of the level.
    fn of(version: &Version<T>, tables: Vec<Placed<T>>, depth: u8) -> Option<Piece<T>> {
        let (range, level) = (range(all(&tables))?, Place::Level(depth));
        let moved = all(&tables).map(|table| table.bytes()).sum();
        let overlapped = version.run(level).map_or(&[][..], |run| run.overlapping(&range)).to_vec();
        let all = moved + overlapped.iter().map(|table| table.bytes()).sum::<u64>();
        let inputs = tables.into_iter().chain([(level, overlapped)]).filter(|(_, tables)| !tables.is_empty());
        Some(Piece { inputs: inputs.map(|(place, tables)| (place, Run::part(tables))).collect(), depth, moved, all })
    }

    /// All tables.
    pub(in crate::lsm) fn files(&self) -> Vec<File> {
        self.inputs.iter().flat_map(|(_, run)| run.files()).collect()
    }

    /// Bytes of all tables.
    pub(super) fn bytes(&self) -> u64 {
        self.all
    }

    /// The one table, if there is no other and it overlaps nothing.
    pub(in crate::lsm) fn single(&self) -> Option<&Arc<T>> {
        match &self.inputs[..] {
            [(_, run)] if run.tables().len() == 1 => run.tables().first(),
            _ => None,
        }
    }

    /// Whether it moves more for what it reads and writes.
    fn is_cheaper(&self, other: &Piece<T>) -> bool {
        u128::from(self.moved) * u128::from(other.all) > u128::from(other.moved) * u128::from(self.all)
    }
}

impl<T> Clone for Piece<T> {
    fn clone(&self) -> Piece<T> {
        let Piece { inputs, depth, moved, all } = self;
        Piece { inputs: inputs.clone(), depth: *depth, moved: *moved, all: *all }
    }
}

impl<T: Ranged> Version<T> {
    /// Whether anything is to be compacted. Level 0 may have so many bytes.
    pub(in crate::lsm) fn is_due(&self, level_0: u64) -> bool {
        self.level_0_excess(level_0).is_some() || self.levels(level_0).next().is_some()
    }

    /// What is compacted next, if anything is due. Level 0 may have so many bytes.
    pub(in crate::lsm) fn pick(&self, level_0: u64) -> Option<Piece<T>> {
        let level = self.levels(level_0).max_by(|a, b| a.0.total_cmp(&b.0));
        match (self.level_0_excess(level_0), level) {
            (Some(runs), Some((excess, depth))) if excess > runs => self.piece_of_level(depth, |_| true),
            (Some(_), _) => self.piece_of_level_0(level_0),
            (None, level) => level.and_then(|(_, depth)| self.piece_of_level(depth, |_| true)),
        }
    }

    /// The piece of level 0 that moves most for what it takes: a table of its oldest run with all that overlaps.
    pub(in crate::lsm) fn piece_of_level_0(&self, level_0: u64) -> Option<Piece<T>> {
        let (_, oldest) = self.runs().rfind(|(place, _)| place.is_run())?;
        let depth = self.top(level_0);
        cheapest(oldest.tables().iter().filter_map(|table| Piece::of(self, self.closure(table), depth)))
    }

    /// A piece with some of these tables of a level, or of level 0 if it has no depth, as long as any of them are there.
    pub(in crate::lsm) fn piece_of_tables(&self, depth: Option<u8>, files: &BTreeSet<File>, level_0: u64) -> Option<Piece<T>> {
        match depth {
            Some(depth) => self.piece_of_level(depth, |table| files.contains(&table.file())),
            // The oldest run has some as long as any are there: those that came later are in younger ones.
            None => self.files_at(None).any(|file| files.contains(&file)).then(|| self.piece_of_level_0(level_0)).flatten(),
        }
    }

    /// The tables of a level, or of level 0 if it has no depth.
    pub(in crate::lsm) fn files_at(&self, depth: Option<u8>) -> impl Iterator<Item = File> {
        let is_there = move |place: Place| depth.map_or(place.is_run(), |depth| place == Place::Level(depth));
        self.runs().filter(move |(place, _)| is_there(*place)).flat_map(|(_, run)| run.files())
    }

    /// Runs of level 0 by those that it may have, if it is to be compacted.
    fn level_0_excess(&self, level_0: u64) -> Option<f64> {
        let runs = || self.runs().filter(|(place, _)| place.is_run());
        let (count, bytes) = (runs().count(), runs().map(|(place, _)| self.bytes_at(place)).sum::<u64>());
        let is_due = count >= MANY_RUNS || (count >= FEW_RUNS && bytes >= level_0);
        is_due.then_some(count as f64 / FEW_RUNS as f64)
    }

    /// The levels that have more bytes than they should, with their bytes by these.
    fn levels(&self, level_0: u64) -> impl Iterator<Item = (f64, u8)> {
        self.runs().filter_map(move |(place, _)| {
            let Place::Level(depth) = place else { return None };
            let (bytes, target) = (self.bytes_at(place), self.target(depth, level_0));
            (bytes > target).then(|| (bytes as f64 / target.max(1) as f64, depth))
        })
    }

    /// The table of a level, of those that may be taken, that overlaps least of the one below.
    fn piece_of_level(&self, depth: u8, may_be: impl Fn(&T) -> bool) -> Option<Piece<T>> {
        let tables = self.run(Place::Level(depth))?.tables().iter().filter(|table| may_be(table));
        let piece = |table: &Arc<T>| Piece::of(self, vec![(Place::Level(depth), vec![table.clone()])], depth - 1);
        cheapest(tables.filter_map(piece))
    }

    /// A table with everything of level 0 that overlaps it, or what is taken with it, by runs from young to old (invariant 12).
    fn closure(&self, table: &Arc<T>) -> Vec<Placed<T>> {
        let wider = |range: &RangeInclusive<&[u8]>| -> Vec<Placed<T>> {
            let runs = self.runs().filter(|(place, _)| place.is_run());
            runs.map(|(place, run)| (place, run.overlapping(range).to_vec())).collect()
        };
        let mut taken = wider(&(table.first()..=table.last()));
        while let Some(range) = range(all(&taken)) {
            let next = wider(&range);
            if all(&next).count() == all(&taken).count() {
                break;
            }
            taken = next;
        }
        taken
    }
}

fn all<T>(placed: &[Placed<T>]) -> impl Iterator<Item = &Arc<T>> + Clone {
    placed.iter().flat_map(|(_, tables)| tables)
}

fn cheapest<T: Ranged>(pieces: impl Iterator<Item = Piece<T>>) -> Option<Piece<T>> {
    pieces.reduce(|best, other| if other.is_cheaper(&best) { other } else { best })
}

/// From the first key of some tables to the last.
fn range<'t, T: Ranged + 't>(tables: impl Iterator<Item = &'t Arc<T>> + Clone) -> Option<RangeInclusive<&'t [u8]>> {
    let first = tables.clone().map(|table| table.first()).min()?;
    Some(first..=tables.map(|table| table.last()).max()?)
}
