//! Merging tables into others (decision 11, "Merging").

use std::sync::Arc;

use ecotone_substrate::{Result, Seq, environment::Environment};

use super::drops::Drops;
use crate::{
    lsm::{
        base::Based,
        handle::Handle,
        merged::{Merged, Source},
        output::Output,
        stored::{Reading, Stored},
        structure::Place,
        table::common,
        version::{Ranged, Run},
    },
    rest::{Direction, Rest},
};

/// A source of a job, on its next record.
#[expect(clippy::large_enum_variant, reason = "all but the last are tables")]
enum Input {
    Tables(Place, Stored),
    Below(Based),
}

impl Input {
    /// The present record; no value is a tombstone.
    fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self {
            Input::Tables(_, stored) => stored.record(),
            Input::Below(based) => based.record().map(|(key, value)| (key, Some(value))),
        }
    }

    fn counts(&self, drops: &mut Drops<Handle>, key: &[u8]) -> bool {
        match self {
            Input::Tables(place, _) => drops.counts(*place, key),
            Input::Below(_) => true,
        }
    }

    /// Whether the block of the record is in the block cache.
    fn is_cached(&self) -> bool {
        matches!(self, Input::Tables(_, stored) if stored.is_cached())
    }

    /// The smallest and the largest sequence that the record may have. What is below the tables does not tell, and is older than all of them.
    fn sequences(&self) -> (Seq, Seq) {
        match self {
            Input::Tables(_, stored) => stored.sequences(),
            Input::Below(_) => (0, 0),
        }
    }
}

impl Source for Input {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Input::Tables(_, stored) => stored.key(),
            Input::Below(based) => based.key(),
        }
    }

    fn step(&mut self) -> Result<()> {
        match self {
            Input::Tables(_, stored) => stored.step(),
            Input::Below(based) => based.step(),
        }
    }
}

/// What is merged, and how.
pub(in crate::lsm) struct Merge<'m> {
    pub(in crate::lsm) environment: &'m Environment,
    /// From young to old.
    pub(in crate::lsm) inputs: &'m [(Place, Run<Handle>)],
    /// What is below the tables, if that is merged as well.
    pub(in crate::lsm) below: Option<Based>,
    /// The keys of which records are written. What comes of a key does not depend on it (decision 16, invariant 3).
    pub(in crate::lsm) range: &'m Rest,
    /// Makes the hash of a key.
    pub(in crate::lsm) hash_of: &'m dyn Fn(&[u8]) -> u64,
    /// Is told how many bytes of records have passed since it was told last, each time that these are a MiB.
    pub(in crate::lsm) looks: &'m mut dyn FnMut(u64) -> Result<()>,
}

/// Bytes of records between two looks.
const LOOK: u64 = 1 << 20;

/// Writes of each key of a range the newest record, but for tombstones that hide nothing and for what does not count.
///
/// # Errors
/// If something is damaged or cannot be read, or memory or space on the disk is wanting, or a look ends it. Then there are no files.
pub(in crate::lsm) fn merge(work: Merge<'_>, mut drops: Drops<Handle>, mut output: Output<'_>) -> Result<Vec<Arc<Handle>>> {
    let Merge { environment, inputs, below, range, hash_of, looks } = work;
    let way = (Direction::Up, Reading::Ahead);
    let input = |(place, run): &(Place, _)| Ok(Input::Tables(*place, Stored::begin(environment, run, range, way)?));
    let mut sources = inputs.iter().map(input).collect::<Result<Vec<_>>>()?;
    let skip = if below.is_some() { 0 } else { shared(inputs) };
    sources.extend(below.map(Input::Below));
    let mut merged = Merged::new(sources, Direction::Up, skip);
    let mut passed = 0;
    while let Some(input) = merged.first()
        && let Some((key, value)) = input.record()
        && range.is_below_high(key)
    {
        passed += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if input.counts(&mut drops, key) {
            if value.is_some() || !drops.may_drop(key) {
                output.push(hash_of(key), key, value, input.sequences())?;
                if input.is_cached() {
                    output.note_cached();
                }
            }
            merged.pass()?;
        } else {
            // Of the tables no older one counts either, but what is below them does.
            merged.skip()?;
        }
        if passed >= LOOK {
            looks(passed)?;
            passed = 0;
        }
    }
    output.finish()
}

/// Bytes that all keys have in common.
fn shared(inputs: &[(Place, Run<Handle>)]) -> usize {
    let first = inputs.iter().filter_map(|(_, run)| run.tables().first()).map(|table| table.first()).min();
    let last = inputs.iter().filter_map(|(_, run)| run.tables().last()).map(|table| table.last()).max();
    first.zip(last).map_or(0, |(first, last)| common(first, last))
}
