//! Positions the iterators of a scan's sorted runs together. Absent indexes are loaded and first blocks of tables are
//! read with all requests in flight at once. The pages, if there are any, are read last.

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
    pages::tier::PageCursor,
    read::{
        index_loads::PendingLoads,
        run_iterator::{ReadMode, RunIterator},
        sorted_run_iterator::SortedRunIterator,
    },
    store::Lsm,
    table::Candidates,
    version::SortedRun,
};

/// Iterators over sorted runs, on the first records of the remaining range; runs of tables without one are left out. L0
/// runs are charged to the read compaction budget.
pub(crate) fn begin<'v>(
    lsm: &Arc<Lsm>,
    runs: impl Iterator<Item = SortedRun<'v, TableReader>>,
    rest: &RemainingRange,
    (direction, memory): (Direction, Component),
) -> Result<Vec<SortedRunIterator>> {
    let (mut of_level_0, mut page_tier) = (0, None);
    let before = |run| {
        let SortedRun::Tables(run_id, run) = run else {
            page_tier = lsm.page_tier();
            return None;
        };
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
    let mut sources: Vec<_> = sources.into_iter().map(SortedRunIterator::Tables).collect();
    if let Some(page_tier) = page_tier {
        lsm.reads.of_pages.increment();
        sources.push(SortedRunIterator::Pages(PageCursor::begin(page_tier, rest, direction, memory)?));
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
