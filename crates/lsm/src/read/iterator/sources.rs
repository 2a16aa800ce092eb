//! Positions the run iterators of a scan together. Absent indexes are loaded and first blocks are read with all
//! requests in flight at once.

use std::sync::Arc;

use ecotone_engine::{
    read_ahead::ReadAhead,
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::{
    Result,
    memory::Component,
    storage::{Queue, Reads},
};

use crate::{
    cache::table_reader::{TableLoader, TableReader},
    manifest::RunId,
    read::{
        index_loads::PendingLoads,
        run_iterator::{ReadMode, RunIterator},
    },
    store::Lsm,
    table::Candidates,
    version::Run,
};

/// Run iterators on the first records of the remaining range; runs without one are left out. L0 runs are charged to the
/// read compaction budget.
pub(crate) fn begin<'v>(
    lsm: &Arc<Lsm>,
    runs: impl Iterator<Item = (RunId, &'v Run<TableReader>)>,
    rest: &RemainingRange,
    (direction, memory): (Direction, Component),
) -> Result<Vec<RunIterator>> {
    let mut of_level_0 = 0;
    let before = |(run_id, run): (RunId, _)| {
        let follows = ReadAhead { scan_lengths: lsm.lengths_of(run_id).clone(), memory };
        let source = RunIterator::before(run, rest, (direction, ReadMode::Adaptive(follows)));
        let is_left = !source.is_over();
        of_level_0 += u64::from(is_left && run_id.is_l0());
        is_left.then_some(source)
    };
    let mut sources: Vec<RunIterator> = runs.filter_map(before).collect();
    lsm.charge_l0_runs(of_level_0);
    match &mut sources[..] {
        [] => {}
        [only] => only.seek_alone(rest)?,
        several => begin_together(lsm.files.loader(), several, rest)?,
    }
    Ok(sources)
}

fn begin_together(loader: &TableLoader, sources: &mut [RunIterator], rest: &RemainingRange) -> Result<()> {
    let mut queue = loader.environment().storage.queue()?;
    let places = locate(loader, sources, rest, &mut *queue)?;
    let mut reads = Reads::new(&mut *queue);
    for (number, source) in sources.iter_mut().enumerate() {
        source.ask(places[number], &mut reads, number)?;
    }
    while let Some((number, memory)) = reads.wait()? {
        sources[number].receive(memory);
    }
    sources.iter_mut().zip(places).try_for_each(|(source, blocks)| source.stand(rest, blocks))
}

/// The candidate blocks of the key that each iterator seeks, if it seeks one.
fn locate(
    loader: &TableLoader,
    sources: &[RunIterator],
    rest: &RemainingRange,
    queue: &mut dyn Queue,
) -> Result<Vec<Option<Candidates>>> {
    let (mut places, mut waits) = (vec![None; sources.len()], PendingLoads::new());
    for (number, source) in sources.iter().enumerate() {
        let Some((reader, key)) = source.seek_target(rest) else { continue };
        reader.reads.increment();
        match reader.located(key) {
            Ok(blocks) => places[number] = Some(blocks),
            Err(part) => waits.add(reader, part, key, number),
        }
    }
    waits.load(loader.cache(), queue, &mut |_, _, number, blocks| places[number] = Some(blocks))?;
    Ok(places)
}
