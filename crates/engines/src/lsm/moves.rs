//! Records of a range on their way from tables into what is below these, in parts (decision 14, "Turning tables into
//! pages"; decision 16, "Parts of a job").

use std::{collections::BTreeSet, iter, ops::Bound, sync::Arc};

use ecotone_substrate::{Error, Result};

use super::{
    base::{Base, Moved},
    clearing::Span,
    compact::{
        job::mean,
        parts::{Parts, Work},
        split,
    },
    handle::Handle,
    merged::Merged,
    records::Lsm,
    stored::{Reading, Stored},
    version::{Ranged, Run},
    worked::Worked,
};
use crate::rest::{Direction, Rest};

/// How many records come between two looks at whether there is still a job.
const LOOK: u64 = 1024;

/// What is fixed before it is cut.
struct Moves {
    base: Arc<dyn Base>,
    /// From young to old.
    runs: Vec<Run<Handle>>,
    parts: Vec<Span>,
    is_covered: bool,
    worked: Arc<Worked>,
}

impl Work for Moves {
    type Made = ();

    fn make(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<()> {
        let (lower, upper) = &self.parts[part];
        let rest = Rest::new((Bound::Included(lower.clone()), Bound::Excluded(upper.clone())));
        let way = (Direction::Up, Reading::Ahead);
        let begin = |run| Stored::begin(run, &rest, way.clone());
        let mut merged = Merged::new(self.runs.iter().map(begin).collect::<Result<_>>()?, Direction::Up, 0);
        let mut passed: u64 = 0;
        let next = || {
            passed += 1;
            if passed.is_multiple_of(LOOK) && !goes_on() {
                return Some(Err(Error::Closed { what: "the absorption" }));
            }
            let record = merged.first().and_then(Stored::record).filter(|(key, _)| rest.contains(key));
            let (key, value) = record.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))?;
            Some(merged.pass().map(|()| (key, value)))
        };
        let is_wanted =
            |record: &Result<Moved>| self.is_covered || record.as_ref().map_or(true, |(_, value)| value.is_some());
        self.worked.make(|| self.base.absorb(&mut iter::from_fn(next).filter(is_wanted), self.is_covered)).map(|_| ())
    }
}

impl Lsm {
    /// Moves the records that some runs have of a range, with helpers. Where nothing covers the range yet it is carved
    /// before; where something does, a tombstone goes along, as there may be something to remove.
    pub(super) fn move_down(
        &self,
        base: &Arc<dyn Base>,
        runs: Vec<Run<Handle>>,
        span: (&[u8], &[u8]),
        is_covered: bool,
    ) -> Result<()> {
        let helpers = self.helpers(runs.len(), mean(runs.iter().flat_map(Run::tables)));
        let parts = self.parts_of(base, &runs, span, is_covered, 1 + helpers)?;
        if !is_covered {
            parts.iter().try_for_each(|(lower, upper)| base.carve(lower, Some(upper)))?;
        }
        let count = parts.len();
        self.absorption_parts.add(count as u64);
        let moves = Moves { base: base.clone(), runs, parts, is_covered, worked: self.worked.clone() };
        let (parts, before) = (Parts::new(moves, count), base.written_bytes());
        self.call_helpers("move a part of a range into pages", &parts, helpers.min(count - 1));
        let made = parts.make_all();
        self.adapted.add(base.written_bytes() - before);
        made.map(|_| ()).map_err(|(error, _)| error)
    }

    /// A range in parts for so many threads, ascending, of each of which tables have about as many bytes, and which
    /// pages keep apart.
    fn parts_of(
        &self,
        base: &Arc<dyn Base>,
        runs: &[Run<Handle>],
        (lower, upper): (&[u8], &[u8]),
        is_covered: bool,
        threads: usize,
    ) -> Result<Vec<Span>> {
        let tables = || runs.iter().flat_map(|run| run.within((lower, upper)));
        let within = |key: &&[u8]| *key > lower && *key < upper;
        // Counted where they begin: of those at the edges there may be little.
        let bytes: u64 = tables().filter(|table| within(&table.first())).map(|table| table.bytes()).sum();
        let candidates: BTreeSet<&[u8]> = tables().map(|table| table.first()).filter(within).collect();
        let parts = split::parts(threads, bytes, self.sizes.absorbed_part);
        let cuts = split::cuts(tables(), candidates.into_iter().collect(), parts);
        // Parts of segments are not claimed: two threads would wait for each other.
        let fence = |cut: &[u8]| if is_covered { base.fence_behind(cut) } else { Ok(cut.to_vec()) };
        let fences = cuts.into_iter().map(fence).collect::<Result<BTreeSet<Vec<u8>>>>()?;
        let inner: Vec<_> = fences.into_iter().filter(|fence| within(&fence.as_slice())).collect();
        let lowers = iter::once(lower.to_vec()).chain(inner.iter().cloned());
        let uppers = inner.iter().cloned().chain([upper.to_vec()]);
        Ok(lowers.zip(uppers).collect())
    }
}
