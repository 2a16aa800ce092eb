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

/// Writes of each key of a range that the inputs have, which are from young to old, the newest record, but for tombstones that hide nothing and for what does not
/// count. `hash_of` makes the hash of a key. What comes of a key does not depend on the range (decision 16, invariant 3).
///
/// # Errors
/// If something is damaged or cannot be read, or memory or space on the disk is wanting. Then there are no files.
pub(in crate::lsm) fn merge(
    environment: &Environment,
    inputs: &[(Place, Run<Handle>)],
    range: &Rest,
    mut drops: Drops<Handle>,
    mut output: Output<'_>,
    hash_of: &dyn Fn(&[u8]) -> u64,
) -> Result<Vec<Arc<Handle>>> {
    let way = (Direction::Up, Reading::Ahead);
    let input = |(place, run): &(Place, _)| Ok(Input { place: *place, stored: Stored::begin(environment, run, range, way)? });
    let mut merged = Merged::new(inputs.iter().map(input).collect::<Result<_>>()?, Direction::Up, shared(inputs));
    while let Some((place, source)) = merged.first().map(|input| (input.place, &input.stored))
        && let Some((key, value)) = source.record()
        && range.is_below_high(key)
    {
        // Where the newest does not count, no other does.
        if drops.counts(place, key) && (value.is_some() || !drops.may_drop(key)) {
            output.push(hash_of(key), key, value, source.sequences())?;
        }
        merged.pass()?;
    }
    output.finish()
}

/// Bytes that all keys have in common.
fn shared(inputs: &[(Place, Run<Handle>)]) -> usize {
    let first = inputs.iter().filter_map(|(_, run)| run.tables().first()).map(|table| table.first()).min();
    let last = inputs.iter().filter_map(|(_, run)| run.tables().last()).map(|table| table.last()).max();
    first.zip(last).map_or(0, |(first, last)| common(first, last))
}
