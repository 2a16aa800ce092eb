//! Which tables are compacted next (decision 11, "Picking").

use std::{collections::BTreeSet, ops::RangeInclusive, slice, sync::Arc};

use ecotone_substrate::{limits::PAGE, table::File};

use super::rounds::Rounds;
use crate::lsm::{
    structure::Place,
    version::{Ranged, Run, Version},
};

/// Runs of level 0 with which it is compacted if it has bytes enough, and that become one if they have few; and runs
/// with which it is compacted in any case.
pub(super) const FEW_RUNS: usize = if cfg!(feature = "shuttle") { 2 } else { 4 };
pub(super) const MANY_RUNS: usize = 8;

/// Bytes that runs of level 0, one next to the other, have at most together when they become one.
#[derive(Debug, Clone, Copy)]
pub(in crate::lsm) struct Small {
    /// A few of them, of which none is large beside the others.
    pub(in crate::lsm) few: u64,
    /// Any, since scans have paid for it.
    pub(in crate::lsm) paid: u64,
}

impl Small {
    /// None become one.
    pub(in crate::lsm) const NONE: Small = Small { few: 0, paid: 0 };
}

/// Tables of one place.
pub(super) type Placed<T> = (Place, Vec<Arc<T>>);

/// Tables that go to one place together.
#[derive(Debug)]
pub(in crate::lsm) struct Piece<T> {
    /// From young to old, and where they are; those of a level into which they go come last.
    pub(in crate::lsm) inputs: Vec<(Place, Run<T>)>,
    /// A level below the others, or that of the youngest run if they are runs.
    pub(in crate::lsm) target: Place,
    /// What it is worth, in bytes: those that are not in the level yet, and what will not be read in vain or hidden any
    /// more.
    pub(super) worth: u64,
    /// Bytes of all tables.
    all: u64,
}

impl<T: Ranged> Piece<T> {
    /// Of tables by their places, from young to old, and what they overlap of the level.
    pub(super) fn of(version: &Version<T>, tables: Vec<Placed<T>>, depth: u8) -> Option<Piece<T>> {
        let (range, level) = (range(all(&tables))?, Place::Level(depth));
        let overlapped = vec![(level, version.run(level).map_or(&[][..], |run| run.overlapping(&range)).to_vec())];
        let (worth, all) = (worth(&tables, &overlapped), bytes(&tables) + bytes(&overlapped));
        let inputs = tables.into_iter().chain(overlapped).filter(|(_, tables)| !tables.is_empty());
        let inputs = inputs.map(|(place, tables)| (place, Run::part(tables))).collect();
        Some(Piece { inputs, target: level, worth, all })
    }

    /// Of these tables, from young to old, those of the level last.
    pub(super) fn of_inputs(inputs: Vec<(Place, Run<T>)>, target: Place) -> Piece<T> {
        let all = inputs.iter().flat_map(|(_, run)| run.tables()).map(|table| table.bytes()).sum();
        Piece { inputs, target, worth: all, all }
    }

    /// The same with another worth.
    pub(super) fn of_worth(self, worth: u64) -> Piece<T> {
        Piece { worth, ..self }
    }

    /// All tables.
    pub(in crate::lsm) fn files(&self) -> Vec<File> {
        self.inputs.iter().flat_map(|(_, run)| run.files()).collect()
    }

    /// What it is worth, in bytes.
    pub(in crate::lsm) fn worth(&self) -> u64 {
        self.worth
    }

    /// Bytes of all tables.
    pub(in crate::lsm) fn bytes(&self) -> u64 {
        self.all
    }

    /// Its tables of level 0.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Arc<T>> + Clone {
        self.inputs.iter().filter(|(place, _)| place.is_run()).flat_map(|(_, run)| run.tables())
    }

    /// The one table, if there is no other and it overlaps nothing.
    pub(in crate::lsm) fn single(&self) -> Option<&Arc<T>> {
        match &self.inputs[..] {
            [(_, run)] if run.tables().len() == 1 => run.tables().first(),
            _ => None,
        }
    }

    /// Whether it is worth more for what it reads and writes.
    fn is_cheaper(&self, other: &Piece<T>) -> bool {
        u128::from(self.worth) * u128::from(other.all) > u128::from(other.worth) * u128::from(self.all)
    }
}

impl<T> Clone for Piece<T> {
    fn clone(&self) -> Piece<T> {
        let Piece { inputs, target, worth, all } = self;
        Piece { inputs: inputs.clone(), target: *target, worth: *worth, all: *all }
    }
}

impl<T: Ranged> Version<T> {
    /// Whether anything is to be compacted. Level 0 may have so many bytes.
    pub(in crate::lsm) fn is_due(&self, level_0: u64, small: Small) -> bool {
        self.level_0_excess(level_0).is_some()
            || self.piece_of_small_runs(small).is_some()
            || self.levels(level_0).next().is_some()
            || self.piece_of_tombstones().is_some()
    }

    /// What is compacted next, if anything is due. Level 0 may have so many bytes.
    pub(in crate::lsm) fn pick(&self, level_0: u64, small: Small, rounds: &mut Rounds) -> Option<Piece<T>> {
        let level = self.levels(level_0).max_by(|a, b| a.0.total_cmp(&b.0));
        match (self.level_0_excess(level_0), level) {
            (Some(runs), Some((excess, depth))) if excess > runs => self.next_piece_of_level(depth, rounds),
            // What is left of runs of which most has gone down becomes one sooner than that it goes down.
            (Some(_), _) => {
                self.piece_of_small_runs(Small { paid: 0, ..small }).or_else(|| self.piece_of_level_0(level_0))
            }
            (None, level) => {
                let level = || level.and_then(|(_, depth)| self.next_piece_of_level(depth, rounds));
                self.piece_of_small_runs(small).or_else(level).or_else(|| self.piece_of_tombstones())
            }
        }
    }

    /// Whether anything is above the last level: there alone it may hide something.
    pub(in crate::lsm) fn has_upper(&self) -> bool {
        self.runs().any(|(place, _)| place != Place::Level(1))
    }

    /// A piece of the youngest that is above the last level, however little there is: for who needs the space of what
    /// it hides.
    pub(in crate::lsm) fn piece_of_upper(&self, level_0: u64) -> Option<Piece<T>> {
        let (place, _) = self.runs().next()?;
        match place {
            Place::Run(_) => self.piece_of_level_0(level_0),
            Place::Level(1) => None,
            Place::Level(depth) => self.piece_of_level(depth, |_| true),
        }
    }

    /// The piece of a level that is worth most, or the next of a round.
    fn next_piece_of_level(&self, depth: u8, rounds: &mut Rounds) -> Option<Piece<T>> {
        let Some(last) = rounds.begin_job(depth) else { return self.piece_of_level(depth, |_| true) };
        let tables = self.run(Place::Level(depth))?.tables();
        let next = tables.iter().find(|table| *table.first() > **last).or(tables.first())?;
        *last = next.last().to_vec();
        self.piece_of_level(depth, |table| table.file() == next.file())
    }

    /// The runs of level 0, one next to the other, that become one with the fewest bytes for each that there is less
    /// of, if any may: each costs a scan as much as a large one.
    pub(in crate::lsm) fn piece_of_small_runs(&self, small: Small) -> Option<Piece<T>> {
        let runs: Vec<_> = self.level_0().map(|(place, run)| (place, run, self.bytes_at(place))).collect();
        let from = |first: usize| [few_runs(&runs[first..], small.few), paid_runs(&runs[first..], small.paid)];
        let pieces = (0..runs.len()).flat_map(from).flatten();
        pieces.min_by_key(|piece| piece.all / (piece.inputs.len() as u64 - 1))
    }

    /// A piece with some of these tables of a level, or of level 0 if it has no depth, as long as any of them are
    /// there.
    pub(in crate::lsm) fn piece_of_tables(
        &self,
        depth: Option<u8>,
        files: &BTreeSet<File>,
        level_0: u64,
    ) -> Option<Piece<T>> {
        match depth {
            Some(depth) => self.piece_of_level(depth, |table| files.contains(&table.file())),
            // The oldest run has some as long as any are there: those that came later are in younger ones.
            None => {
                self.files_at(None).any(|file| files.contains(&file)).then(|| self.piece_of_oldest(level_0)).flatten()
            }
        }
    }

    /// The tables of a level, or of level 0 if it has no depth.
    pub(in crate::lsm) fn files_at(&self, depth: Option<u8>) -> impl Iterator<Item = File> {
        let is_there = move |place: Place| depth.map_or(place.is_run(), |depth| place == Place::Level(depth));
        self.runs().filter(move |(place, _)| is_there(*place)).flat_map(|(_, run)| run.files())
    }

    /// Runs of level 0 by those that it may have, if it is to be compacted.
    fn level_0_excess(&self, level_0: u64) -> Option<f64> {
        let (count, bytes) =
            (self.level_0().count(), self.level_0().map(|(place, _)| self.bytes_at(place)).sum::<u64>());
        let is_due = count >= MANY_RUNS || (count >= FEW_RUNS && bytes >= level_0);
        is_due.then_some(count as f64 / FEW_RUNS as f64)
    }

    /// The levels that have more bytes than they should, with their bytes by these, or by those of level 0 where they
    /// should have none: what is left of a level that is not needed any more hurries nobody.
    fn levels(&self, level_0: u64) -> impl Iterator<Item = (f64, u8)> {
        self.runs().filter_map(move |(place, _)| {
            let Place::Level(depth) = place else { return None };
            let (bytes, target) = (self.bytes_at(place), self.target(depth, level_0));
            (bytes > target).then(|| (bytes as f64 / target.max(level_0).max(1) as f64, depth))
        })
    }

    /// The table of a level, of those that may be taken, that overlaps least of the one below.
    pub(in crate::lsm) fn piece_of_level(&self, depth: u8, may_be: impl Fn(&T) -> bool) -> Option<Piece<T>> {
        let tables = self.run(Place::Level(depth))?.tables().iter().filter(|table| may_be(table));
        let piece = |table: &Arc<T>| Piece::of(self, vec![(Place::Level(depth), vec![table.clone()])], depth - 1);
        cheapest(tables.filter_map(piece))
    }

    /// Neighbours of a level in a stretch of keys, with what they overlap of the one below, from the first one with
    /// which it has no more than `most` bytes: several if it has no more than `at_once`, nor more than they have one by
    /// one, where each overlaps something.
    pub(super) fn piece_of_stretch(
        &self,
        depth: u8,
        stretch: (&[u8], &[u8]),
        (at_once, most): (u64, u64),
    ) -> Option<Piece<T>> {
        let (place, tables) = (Place::Level(depth), self.run(Place::Level(depth))?.within(stretch));
        let piece = |tables: &[Arc<T>]| Piece::of(self, vec![(place, tables.to_vec())], depth - 1);
        let alone = tables.iter().map(|table| piece(slice::from_ref(table)).expect("a table has keys"));
        let mut pieces = alone.enumerate().skip_while(|(_, piece)| piece.all > most);
        let (first, mut found) = pieces.next()?;
        let is_alone = found.single().is_some();
        for (number, next) in pieces.take_while(|(_, next)| !is_alone && next.single().is_none()) {
            let joined = piece(&tables[first..=number])?;
            if joined.all > at_once.min(most).min(found.all + next.all) {
                break;
            }
            found = joined;
        }
        Some(found)
    }
}

/// A run, with its bytes.
type Sized<'r, T> = (Place, &'r Run<T>, u64);

/// The first of some runs that have so many bytes at most. None is larger than all that are younger of them, nor the
/// youngest than all others, so a record is written again as often as what it is with has become twice as large, and
/// once more for each column that has left it.
fn few_runs<T>(runs: &[Sized<'_, T>], most: u64) -> Option<Piece<T>> {
    let (mut count, mut all) = (0, 0);
    for (.., bytes) in runs {
        if all + bytes > most || (all > 0 && *bytes > all) {
            break;
        }
        (count, all) = (count + 1, all + bytes);
    }
    let (.., youngest) = runs.first()?;
    (count >= FEW_RUNS && 2 * youngest <= all).then(|| joined(&runs[..count]))
}

/// The first of some runs that are merged with the fewest bytes for each that there is less of, which are so many at
/// most.
fn paid_runs<T>(runs: &[Sized<'_, T>], most: u64) -> Option<Piece<T>> {
    let (first, others) = runs.split_first()?;
    let sums = others.iter().scan(first.2, |all, (.., bytes)| {
        *all += bytes;
        Some(*all)
    });
    let affordable = (1..).zip(sums).take_while(|(_, all)| *all <= most);
    let (more, _) = affordable.min_by_key(|(more, all)| all / more)?;
    Some(joined(&runs[..=more as usize]))
}

/// Runs, from young to old, that become one in the place of the youngest.
fn joined<T>(runs: &[Sized<'_, T>]) -> Piece<T> {
    let all = runs.iter().map(|(.., bytes)| bytes).sum();
    let inputs = runs.iter().map(|(place, run, _)| (*place, (*run).clone())).collect();
    Piece { inputs, target: runs[0].0, worth: all, all }
}

pub(super) fn all<T>(placed: &[Placed<T>]) -> impl Iterator<Item = &Arc<T>> + Clone {
    placed.iter().flat_map(|(_, tables)| tables)
}

fn bytes<T: Ranged>(placed: &[Placed<T>]) -> u64 {
    all(placed).map(|table| table.bytes()).sum()
}

/// What tables are worth that go to where others are: each tombstone hides a record there, and each read in vain was
/// one of a page.
fn worth<T: Ranged>(tables: &[Placed<T>], others: &[Placed<T>]) -> u64 {
    let records: u64 = all(others).map(|table| table.records().0).sum();
    let hidden = bytes(others) / records.max(1);
    let worth = |table: &Arc<T>| table.bytes() + table.records().1 * hidden + table.reads_in_vain() * PAGE as u64;
    all(tables).map(worth).sum()
}

pub(super) fn cheapest<T: Ranged>(pieces: impl Iterator<Item = Piece<T>>) -> Option<Piece<T>> {
    pieces.reduce(|best, other| if other.is_cheaper(&best) { other } else { best })
}

/// From the first key of some tables to the last.
pub(super) fn range<'t, T: Ranged + 't>(
    tables: impl Iterator<Item = &'t Arc<T>> + Clone,
) -> Option<RangeInclusive<&'t [u8]>> {
    let first = tables.clone().map(|table| table.first()).min()?;
    Some(first..=tables.map(|table| table.last()).max()?)
}
