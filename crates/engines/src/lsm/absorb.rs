//! Bringing what counts of a range into what is below the tables (decision 14, "Turning tables into pages"; decision
//! 15, invariants 4, 6, 11, 12, 15 to 17): piece by piece.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ecotone_substrate::{Error, Result, limits::MAX_LEVELS};
use ecotone_sys::primitive::Mutex;

use super::{
    base::Base,
    handle::Handle,
    open::Sinking,
    records::Lsm,
    structure::{Become, Change, Cover, CoverEdit, Covers, Place, Stretch},
    version::{Ranged, Run, Split, Version},
};

/// Bytes of what counts, or of pages below, that go together at most, about, and tables that these are at most.
const PIECE: u64 = 32 << 20;
const PIECE_TABLES: u64 = 4;
/// How often a piece is halved at most.
const HALVINGS: u32 = 20;

/// A range that is absorbed with one edit. Of all its keys the same places count.
struct Piece {
    lower: Vec<u8>,
    upper: Vec<u8>,
    is_covered: bool,
}

/// What one turn leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Absorbing {
    /// How often pieces are halved, since memory or space was wanting for larger ones.
    halvings: AtomicU32,
    /// The youngest run that a job has which began with an absorption, until it is done.
    begun: Mutex<Option<Place>>,
}

impl Absorbing {
    /// The youngest run that the next job may have, if one has begun.
    pub(super) fn begun(&self) -> Option<Place> {
        *self.begun.lock()
    }

    /// A job is done.
    pub(super) fn end(&self) {
        *self.begun.lock() = None;
    }

    fn begin(&self, version: &Version<Handle>) {
        let youngest = version.runs().map(|(place, _)| place).next();
        let mut begun = self.begun.lock();
        *begun = begun.or(youngest);
    }

    /// A piece has ended so.
    pub(super) fn learn<T>(&self, ended: &Result<T>) {
        let halvings = self.halvings.load(Ordering::Relaxed);
        let next = match ended {
            Ok(_) => halvings.saturating_sub(1),
            Err(error) if error.is_shortage() => (halvings + 1).min(HALVINGS),
            Err(_) => halvings,
        };
        self.halvings.store(next, Ordering::Relaxed);
    }
}

impl Lsm {
    /// Has all records of a range below the tables that are in tables and count, or those of the oldest place. Where it
    /// is covered already a little more may be absorbed than that. What was uncovered, and is read as it was before by
    /// somebody still, stays in tables. Nothing is done where there is nothing below.
    pub(crate) fn absorb(self: &Arc<Self>, split: Split, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while *from < *upper {
            from = self.absorb_next(split, (&from, upper), || ())?;
        }
        Ok(())
    }

    /// Absorbs the first piece of a range, with a turn of its own, so that what is more urgent comes between it and the
    /// next; tells when it has that. What goes by it is removed then. Gives where it ends.
    pub(crate) fn absorb_next(
        self: &Arc<Self>,
        split: Split,
        (from, upper): (&[u8], &[u8]),
        has_turn: impl FnOnce(),
    ) -> Result<Vec<u8>> {
        let Some(base) = self.base() else { return Ok(upper.to_vec()) };
        let turn = self.compacting.lock();
        has_turn();
        let absorbed = self.absorb_from(base, split, from, upper);
        self.end_turn(turn);
        absorbed.and_then(|end| self.files.conclude().map(|()| end))
    }

    /// Absorbs the piece that begins at a key. Gives where it ends.
    fn absorb_from(self: &Arc<Self>, base: &Arc<dyn Base>, split: Split, from: &[u8], upper: &[u8]) -> Result<Vec<u8>> {
        self.clear_uncovered()?;
        let left = self.files.uncovered();
        let upper = match left.iter().filter(|(_, end)| end.as_slice() > from).min() {
            Some((lower, end)) if lower.as_slice() <= from => return Ok(end.clone()),
            Some((lower, _)) => upper.min(lower),
            None => upper,
        };
        let version = self.version();
        let piece = self.piece(base, &version, from, upper)?;
        let end = piece.upper.clone();
        self.absorb_piece(base, &version, split, piece).map(|()| end)
    }

    /// Empties what is below the tables of ranges that nothing covers: what is left of absorptions that were
    /// interrupted (decision 15, invariant 17).
    pub(crate) fn clear_rests(self: &Arc<Self>) -> Result<()> {
        let Some(base) = self.base() else { return Ok(()) };
        let is_rest = |gap: &Stretch<'_>| !base.is_carved(gap.lower, gap.upper);
        if !self.version().covers().gaps().any(|gap| is_rest(&gap)) {
            return Ok(());
        }
        let turn = self.compacting.lock();
        let version = self.version();
        let mut rests = version.covers().gaps().filter(is_rest);
        let cleared = rests.try_for_each(|gap| base.carve(gap.lower, gap.upper));
        self.keep_apart();
        self.end_turn(turn);
        cleared
    }

    /// Absorbs a piece of what a job would bring to where it does not count. Then the tables are others, and there may
    /// be more. The turn is held.
    pub(super) fn absorb_before(
        self: &Arc<Self>,
        base: &Arc<dyn Base>,
        version: &Version<Handle>,
        sinking: &Sinking<'_>,
    ) -> Result<()> {
        self.absorbing.begin(version);
        let piece = self.piece(base, version, sinking.from, &sinking.upper)?;
        self.absorb_piece(base, version, Split::Side, piece)
    }

    /// Bytes of what is absorbed or uncovered with one edit, about.
    pub(super) fn piece_bytes(&self) -> u64 {
        (PIECE_TABLES * self.sizes.table).min(PIECE) >> self.absorbing.halvings.load(Ordering::Relaxed)
    }

    /// The piece that begins at a key, and ends at another at the latest. Where it is covered both are rounded outward
    /// to fences.
    fn piece(&self, base: &Arc<dyn Base>, version: &Version<Handle>, from: &[u8], upper: &[u8]) -> Result<Piece> {
        let (covers, stretch) = (version.covers(), version.covers().stretch_at(from));
        let end = stretch.upper.map_or(upper, |end| end.min(upper));
        let cut = covers.has_room().then(|| cut(version, stretch.cover, (from, end), self.piece_bytes())).flatten();
        let end = cut.unwrap_or(end);
        let (lower, upper) = match stretch.cover {
            None => (from.to_vec(), end.to_vec()),
            Some(cover) => self.first_piece(base, covers, self.rounded(base, covers, cover, (from, end))?)?,
        };
        Ok(Piece { lower, upper, is_covered: stretch.cover.is_some() })
    }

    fn absorb_piece(
        self: &Arc<Self>,
        base: &Arc<dyn Base>,
        version: &Version<Handle>,
        split: Split,
        piece: Piece,
    ) -> Result<()> {
        let (context, before) = (self.files.context(), self.adapted_bytes());
        let began = context.shared.clock.now_for_log();
        let absorbed = self.bring_down(base, version, split, piece);
        self.absorbing.learn(&absorbed);
        if absorbed.is_ok() {
            tracing::debug!(
                keyspace = context.keyspace,
                written = self.adapted_bytes().saturating_sub(before),
                took = ?context.shared.clock.since(began),
                "converted tables of a range to pages"
            );
        }
        // Bounds go with covers that are joined, and with a range that was carved in vain.
        self.keep_apart();
        absorbed
    }

    fn bring_down(
        self: &Arc<Self>,
        base: &Arc<dyn Base>,
        version: &Version<Handle>,
        split: Split,
        piece: Piece,
    ) -> Result<()> {
        let Piece { lower, upper, is_covered } = piece;
        let cover = version.covers().stretch_at(&lower).cover;
        let taken = version.taken(split, cover, (&lower, &upper));
        if is_covered && taken.is_empty() {
            return Ok(());
        }
        if !is_covered {
            version.covers().check_room_to_cut()?;
        }
        let floor = floor(version, &taken, (cover, &lower, &upper));
        let runs: Vec<_> = taken.into_iter().map(|(_, run)| run.clone()).collect();
        let becomes = if is_covered { Become::Raised(floor) } else { Become::Covered(floor) };
        let mut covers = Covers::clone(version.covers());
        let edits = vec![CoverEdit { lower: lower.clone(), upper: upper.clone(), becomes }];
        covers.apply(&edits).map_err(|what| Error::Invalid(format!("a range of keys cannot be covered: {what}")))?;
        let spent: Vec<_> = version.spent(&covers).collect();
        let change =
            Change { goes: spent.iter().map(|table| table.file()).collect(), covers: edits, ..Change::default() };
        let moved = self.move_down(base, runs, (&lower, &upper), is_covered);
        moved.and_then(|()| self.install(&change, &[], |version| self.present.installed(version))).inspect_err(
            |_| {
                // What has come counts nowhere, and takes space. If that fails as well, the next that covers the range does
                // it, or the next opening.
                let _ = if is_covered { Ok(()) } else { base.carve(&lower, Some(&upper)) };
            },
        )?;
        spent.into_iter().for_each(|table| self.let_go(table));
        // What is below has a cache of its own.
        self.files.loader().cache().blocks().trim();
        Ok(())
    }
}

/// The floor of a range of which these places were taken: the youngest of them where what is above has something that
/// counts.
fn floor(
    version: &Version<Handle>,
    taken: &[(Place, &Run<Handle>)],
    (cover, lower, upper): (Option<&Cover>, &[u8], &[u8]),
) -> Place {
    let is_left = version.taken(Split::Side, cover, (lower, upper)).len() > taken.len();
    taken.first().filter(|_| is_left).map_or_else(|| youngest(version), |(place, _)| *place)
}

/// The youngest place that there is or that a floor is at, so that floors of neighbours are one though the youngest run
/// goes with the first of them. Whatever comes is younger. Without runs the oldest level stands for all (invariant 7).
fn youngest(version: &Version<Handle>) -> Place {
    let floors = version.covers().iter().filter_map(Cover::floor);
    let runs = version.runs().map(|(place, _)| place).chain(floors).filter(|place| place.is_run());
    runs.min().unwrap_or(Place::Level(MAX_LEVELS))
}

/// The first key of a table within a range before which tables begin there that count and have so many bytes.
fn cut<'v>(
    version: &'v Version<Handle>,
    cover: Option<&'v Cover>,
    (from, end): (&[u8], &[u8]),
    most: u64,
) -> Option<&'v [u8]> {
    let counting = version.counting_in(cover).flat_map(|(_, run)| run.tables());
    let mut tables: Vec<_> = counting.filter(|table| (from..end).contains(&table.first())).collect();
    tables.sort_unstable_by(|one, other| one.first().cmp(other.first()));
    let mut bytes = 0;
    let is_full = |table: &&&Arc<Handle>| {
        let before = bytes;
        bytes += table.bytes();
        before >= most.max(1) && table.first() > from
    };
    tables.iter().find(is_full).map(|table| table.first())
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_halved_while_space_or_memory_is_wanting_and_grow_again() {
        let absorbing = Absorbing::default();
        let memory = || Err(Error::Memory { what: "frames", budget: 1 });
        let halvings = |ended: Result<()>| {
            absorbing.learn(&ended);
            absorbing.halvings.load(Ordering::Relaxed)
        };
        assert_eq!(
            [memory(), memory(), Ok(()), Err(Error::Closed { what: "the keyspace" }), Ok(()), Ok(())].map(halvings),
            [1, 2, 1, 1, 0, 0]
        );
        assert!((0..100).all(|_| halvings(memory()) <= HALVINGS));
    }
}
