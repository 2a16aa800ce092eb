//! Merging tables into others (decision 11, "Merging").

use std::sync::Arc;

use ecotone_substrate::Result;

use super::drops::Drops;
use crate::{
    lsm::{
        base::Based,
        handle::Handle,
        layer::Layer,
        merged::{Merged, Source},
        output::Output,
        stored::{Reading, Stored},
        structure::Place,
        table::common,
        version::{Ranged, Run},
    },
    rest::{Direction, Rest},
};

/// A source of a job.
struct Input {
    /// Where it is, unless it is below the tables: there all counts.
    place: Option<Place>,
    layer: Layer,
}

impl Source for Input {
    fn key(&self) -> Option<&[u8]> {
        self.layer.key()
    }

    fn step(&mut self) -> Result<()> {
        self.layer.step()
    }
}

/// What is merged, and how.
pub(in crate::lsm) struct Merge<'m> {
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
/// If something is damaged or cannot be read, or memory or space on the disk is wanting, or a look ends it. Then there
/// are no files.
pub(in crate::lsm) fn merge(
    work: Merge<'_>,
    mut drops: Drops<Handle>,
    mut output: Output<'_>,
) -> Result<Vec<Arc<Handle>>> {
    let Merge { inputs, below, range, hash_of, looks } = work;
    let way = (Direction::Up, Reading::Ahead);
    let layer = |run: &Run<Handle>| Stored::begin(run, range, way.clone()).map(Layer::Tables);
    let input = |(place, run): &(Place, _)| Ok(Input { place: Some(*place), layer: layer(run)? });
    let mut sources = inputs.iter().map(input).collect::<Result<Vec<_>>>()?;
    let skip = if below.is_some() { 0 } else { shared(inputs) };
    sources.extend(below.map(|based| Input { place: None, layer: Layer::Below(based) }));
    let mut merged = Merged::new(sources, Direction::Up, skip);
    let mut passed = 0;
    while let Some(Input { place, layer }) = merged.first()
        && let Some((key, value)) = layer.record()
        && range.is_below_high(key)
    {
        passed += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if place.is_none_or(|place| drops.counts(place, key)) {
            if value.is_some() || !place.is_some_and(|place| drops.may_drop(place, key)) {
                output.push(hash_of(key), key, value, layer.sequences())?;
                if layer.is_cached() {
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
