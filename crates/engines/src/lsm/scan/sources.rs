//! The runs and levels of a scan, which begin together: indexes that are absent are loaded, and first blocks are read,
//! with all requests in flight at once.

use std::sync::Arc;

use ecotone_substrate::{
    Result,
    memory::Component,
    storage::{Queue, Reads},
};

use crate::{
    lengths::ReadAhead,
    lsm::{
        handle::{Handle, Loader},
        loads::Waits,
        records::Lsm,
        stored::{Reading, Stored},
        structure::Place,
        table::Candidates,
        version::Run,
    },
    rest::{Direction, Rest},
};

/// Each of these on its first record that is left, but for those that have none. Those of level 0 are paid for.
pub(super) fn begin<'v>(
    lsm: &Arc<Lsm>,
    runs: impl Iterator<Item = (Place, &'v Run<Handle>)>,
    rest: &Rest,
    (direction, memory): (Direction, Component),
) -> Result<Vec<Stored>> {
    let mut of_level_0 = 0;
    let before = |(place, run): (Place, _)| {
        let follows = ReadAhead { lengths: lsm.lengths_of(place).clone(), memory };
        let source = Stored::before(run, rest, (direction, Reading::Learned(follows)));
        let is_left = !source.is_over();
        of_level_0 += u64::from(is_left && place.is_run());
        is_left.then_some(source)
    };
    let mut sources: Vec<Stored> = runs.filter_map(before).collect();
    lsm.pay(of_level_0);
    match &mut sources[..] {
        [] => {}
        [only] => only.begin_alone(rest)?,
        several => begin_together(lsm.files.loader(), several, rest)?,
    }
    Ok(sources)
}

fn begin_together(loader: &Loader, sources: &mut [Stored], rest: &Rest) -> Result<()> {
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

/// The blocks that can have what each seeks, if it seeks anything.
fn locate(loader: &Loader, sources: &[Stored], rest: &Rest, queue: &mut dyn Queue) -> Result<Vec<Option<Candidates>>> {
    let (mut places, mut waits) = (vec![None; sources.len()], Waits::new());
    for (number, source) in sources.iter().enumerate() {
        let Some((handle, key)) = source.sought(rest) else { continue };
        handle.reads.increment();
        match handle.located(key) {
            Ok(blocks) => places[number] = Some(blocks),
            Err(part) => waits.add(handle, part, key, number),
        }
    }
    waits.load(loader.cache(), queue, &mut |_, _, number, blocks| places[number] = Some(blocks))?;
    Ok(places)
}
