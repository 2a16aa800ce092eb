//! Merging tables into others (decision 11, "Merging").

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::{Result, environment::Environment};

use super::drops::Drops;
use crate::{
    lsm::{
        handle::Handle,
        merged::Merged,
        output::Output,
        stored::{Reading, Stored},
        table::common,
        version::{Ranged, Run},
    },
    rest::{Direction, Rest},
};

/// Writes of each key of the inputs, which are from young to old, the newest record, but for tombstones that hide nothing. `hash_of` makes the hash of a key.
///
/// # Errors
/// If something is damaged or cannot be read, or memory or space on the disk is wanting. Then there are no files.
pub(in crate::lsm) fn merge(
    environment: &Environment,
    inputs: &[Run<Handle>],
    mut drops: Drops<Handle>,
    mut output: Output<'_>,
    hash_of: &dyn Fn(&[u8]) -> u64,
) -> Result<Vec<Arc<Handle>>> {
    let (all, way) = (Rest::new((Bound::Unbounded, Bound::Unbounded)), (Direction::Up, Reading::Ahead));
    let sources = inputs.iter().map(|run| Stored::begin(environment, run, &all, way)).collect::<Result<_>>()?;
    let mut merged = Merged::new(sources, Direction::Up, shared(inputs));
    while let Some((source, (key, value))) = merged.first().and_then(|source| Some((source, source.record()?))) {
        if value.is_some() || !drops.may_drop(key) {
            output.push(hash_of(key), key, value, source.sequences())?;
        }
        merged.pass()?;
    }
    output.finish()
}

/// Bytes that all keys have in common.
fn shared(inputs: &[Run<Handle>]) -> usize {
    let first = inputs.iter().filter_map(|run| run.tables().first()).map(|table| table.first()).min();
    let last = inputs.iter().filter_map(|run| run.tables().last()).map(|table| table.last()).max();
    first.zip(last).map_or(0, |(first, last)| common(first, last))
}
