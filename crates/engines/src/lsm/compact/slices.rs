//! Jobs in slices, where the disk has no room for all that comes of a job before its tables go (decision 11, "Slices").

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::Result;

use super::pick::{Piece, range};
use crate::lsm::{
    handle::Handle,
    records::Lsm,
    structure::{Change, Place},
    version::{Ranged, Run},
};

/// A job takes no more than such a part of the space that is left, and a slice of it such a part.
const JOB_PART: u64 = 2;
const SLICE_PART: u64 = 4;
/// For tests: one of so many jobs is done in slices, however much space there is.
const BY_CHANCE: u64 = 3;

/// Some tables of the level that a job writes into, and the first key behind its slice of the keys, if there is one.
#[derive(Debug)]
struct Slice<T> {
    tables: Vec<Arc<T>>,
    end: Option<Vec<u8>>,
}

impl<T: Ranged> Slice<T> {
    /// The first of what a level has from a key on: tables of so many bytes at most, or one. They begin where the slice
    /// before ends.
    fn first(tables: &[Arc<T>], from: Option<&[u8]>, most: u64) -> Slice<T> {
        let left = &tables[tables.partition_point(|table| from.is_some_and(|from| table.first() < from))..];
        let mut bytes = 0;
        let fit = left.iter().take_while(|table| {
            bytes += table.bytes();
            bytes <= most
        });
        let (its, others) = left.split_at(fit.count().max(1).min(left.len()));
        Slice { tables: its.to_vec(), end: others.first().map(|next| next.first().to_vec()) }
    }
}

impl<T: Ranged> Piece<T> {
    /// The tables that come from above, and where they are.
    fn uppers(&self) -> Vec<(Place, Run<T>)> {
        self.inputs.iter().filter(|(place, _)| *place != self.target).cloned().collect()
    }
}

impl Lsm {
    /// Bytes of the tables that a slice of a job has, if it is to be done in slices.
    pub(super) fn slice_bytes(&self, piece: &Piece<Handle>) -> Result<Option<u64>> {
        if piece.target.is_run() {
            return Ok(None);
        }
        let free = self.files.environment().storage.free_space()?;
        let is_scarce = free / JOB_PART < piece.bytes();
        let by_chance = self.sizes.slices && self.files.context().shared.clock.random().is_multiple_of(BY_CHANCE);
        Ok((is_scarce || by_chance)
            .then(|| if is_scarce { (free / SLICE_PART).max(self.sizes.table) } else { self.sizes.table }))
    }

    /// Makes a job slice by slice. Each replaces tables of the level by what they become with all that is above them in
    /// their range; what is above goes with the last slice. Until then its records are in the level too, where nobody
    /// looks for them, since those above come first. So the job may end early, and needs no more space at a time than a
    /// slice, and what comes to the level.
    pub(super) fn replace_by_slices(self: &Arc<Self>, piece: Piece<Handle>, most: u64, is_awaited: bool) -> Result<()> {
        let (target, uppers) = (piece.target, piece.uppers());
        // Tables that were replaced must not be held, or their space stays.
        drop(piece);
        let mut from: Option<Vec<u8>> = None;
        loop {
            let version = self.version();
            let reach = range(uppers.iter().flat_map(|(_, run)| run.tables())).expect("something comes from above");
            let level = version.run(target).map_or(&[][..], |run| run.overlapping(&reach));
            let Slice { tables, end } = Slice::first(level, from.as_deref(), most);
            let keys =
                (from.map_or(Bound::Unbounded, Bound::Included), end.clone().map_or(Bound::Unbounded, Bound::Excluded));
            let inputs = uppers
                .iter()
                .cloned()
                .chain((!tables.is_empty()).then(|| (target, Run::part(tables.clone()))))
                .collect();
            let part = Piece::of_inputs(inputs, target);
            let comes = self.merge(&version, &part, Some(keys), is_awaited)?;
            let comes: Vec<_> = comes.into_iter().map(|handle| (target, handle)).collect();
            let above = uppers.iter().flat_map(|(_, run)| run.tables()).filter(|_| end.is_none());
            let gone: Vec<_> = tables.into_iter().chain(above.cloned()).collect();
            let change = Change { goes: gone.iter().map(|handle| handle.file()).collect(), ..Change::default() };
            self.install_stripped(change, &comes, &[], &[])?;
            gone.iter().for_each(|handle| self.let_go(handle));
            self.slices.increment();
            drop((part, gone, comes, version));
            self.files.conclude()?;
            from = end;
            if from.is_none() {
                return Ok(());
            }
        }
    }
}
