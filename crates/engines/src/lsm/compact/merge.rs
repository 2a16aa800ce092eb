//! Merging tables into others (decision 11, "Merging").

use std::sync::Arc;

use ecotone_substrate::{Result, environment::Environment};

use super::drops::Drops;
use crate::{
    lsm::{
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

/// A run of the inputs, on its next record.
struct Input {
    place: Place,
    stored: Stored,
}

impl Source for Input {
    fn key(&self) -> Option<&[u8]> {
        self.stored.key()
    }

    fn step(&mut self) -> Result<()> {
        self.stored.step()
    }
}

/// What is merged, and how.
pub(in crate::lsm) struct Merge<'m> {
    pub(in crate::lsm) environment: &'m Environment,
    /// From young to old.
    pub(in crate::lsm) inputs: &'m [(Place, Run<Handle>)],
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
    let Merge { environment, inputs, range, hash_of, looks } = work;
    let way = (Direction::Up, Reading::Ahead);
    let input = |(place, run): &(Place, _)| Ok(Input { place: *place, stored: Stored::begin(environment, run, range, way)? });
    let mut merged = Merged::new(inputs.iter().map(input).collect::<Result<_>>()?, Direction::Up, shared(inputs));
    let mut passed = 0;
    while let Some((place, source)) = merged.first().map(|input| (input.place, &input.stored))
        && let Some((key, value)) = source.record()
        && range.is_below_high(key)
    {
        passed += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        // Where the newest does not count, no other does.
        if drops.counts(place, key) && (value.is_some() || !drops.may_drop(key)) {
            output.push(hash_of(key), key, value, source.sequences())?;
        }
        merged.pass()?;
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
