//! A merge of tables as the parts of it share it, and who makes these (decision 16, "Parts of a job").

use std::sync::Arc;

use ecotone_substrate::{Error, Result, scheduler::Priority, table::File};
use ecotone_sys::chunk::Size;

use super::{
    cuts::Cuts,
    drops::Drops,
    merge::{Merge, merge},
    parts::{Parts, Work},
    pick::Piece,
    rate::Rate,
};
use crate::{
    engine::Range,
    lsm::{
        handle::Handle,
        output::{self, Output},
        records::Lsm,
        structure::Place,
        table::Options,
        version::{Run, Version},
    },
    rest::Rest,
};

/// What a part needs of memory for each run that it reads, for its output, and for each record of a table.
const A_RUN: usize = 2 * Size::Slab.bytes();
const AN_OUTPUT: usize = 4 * Size::Slab.bytes();
const A_RECORD: u64 = 9;

/// What is fixed before a job is cut (invariant 1).
pub(super) struct Job {
    lsm: Arc<Lsm>,
    version: Arc<Version<Handle>>,
    piece: Piece<Handle>,
    files: Vec<File>,
    options: Options,
    cuts: Cuts<Handle>,
    ranges: Vec<Range>,
    /// Whether a caller waits for it.
    is_awaited: bool,
}

impl Work for Job {
    type Made = Vec<Arc<Handle>>;

    fn make(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<Vec<Arc<Handle>>> {
        self.lsm.files.context().begin_session()?;
        let (files, name) = (&self.lsm.files, &mut || self.lsm.files.fresh_name());
        let (low, high) = self.ranges[part].clone();
        let mut rate = (!self.is_awaited).then(|| Rate::begin(&self.lsm));
        let work = Merge {
            inputs: &self.piece.inputs,
            below: None,
            range: &Rest::new((low, high)),
            hash_of: &|key| self.lsm.hash(key),
            looks: &mut |passed| {
                self.lsm.pressure.pass(passed);
                self.lsm.look_behind();
                if let Some(rate) = &mut rate {
                    rate.rest();
                }
                if goes_on() { Ok(()) } else { Err(Error::Closed { what: "the compaction" }) }
            },
        };
        let output = Output::new(files.loader(), self.options, self.cuts.clone(), name);
        self.lsm.worked.make(|| merge(work, Drops::of(&self.version, &self.files), output))
    }
}

impl Lsm {
    /// Merges the tables of a piece, with helpers if that is late or awaited, or what they have of a slice of the keys.
    /// What came of them is not installed yet.
    pub(super) fn merge(
        self: &Arc<Self>,
        version: &Arc<Version<Handle>>,
        piece: &Piece<Handle>,
        slice: Option<Range>,
        is_awaited: bool,
    ) -> Result<Vec<Arc<Handle>>> {
        let mean = mean(piece.inputs.iter().flat_map(|(_, run)| run.tables()));
        let is_shared = slice.is_none() && (is_awaited || self.lateness() >= self.sizes.late);
        let helpers = if is_shared { self.helpers(piece.inputs.len(), mean) } else { 0 };
        let handles = piece.inputs.iter().flat_map(|(_, run)| run.tables()).map(|handle| &**handle);
        let options = self.table_options(piece.target, mean as usize, handles, version);
        let is_whole_job = slice.is_none();
        let ranges = slice.map_or_else(|| piece.ranges(1 + helpers, self.sizes.part), |slice| vec![slice]);
        let files = piece.files();
        let (count, piece) = (ranges.len(), piece.clone());
        let is_whole = |(place, run): &&(Place, Run<Handle>)| {
            place.is_run() && version.run(*place).is_some_and(|whole| whole.tables().len() == run.tables().len())
        };
        let runs = if is_whole_job {
            piece.inputs.iter().filter(is_whole).count() - usize::from(piece.target.is_run())
        } else {
            0
        };
        self.pressure.begin_job(runs as u64, piece.bytes());
        let (lsm, version, cuts) = (self.clone(), version.clone(), self.cuts_at(piece.target, version));
        let parts = Parts::new(Job { lsm, version, piece, files, options, cuts, ranges, is_awaited }, count);
        self.parts.add(count as u64);
        self.call_helpers("compact a part of tables", &parts, helpers.min(count - 1));
        let ended = parts.make_all();
        self.pressure.end_job();
        match ended {
            Ok(made) => Ok(made.into_iter().flatten().collect()),
            Err((error, made)) => {
                self.look_behind();
                output::remove(self.files.environment(), &made.into_iter().flatten().collect::<Vec<_>>());
                Err(error)
            }
        }
    }

    /// How many threads may help with a job of so many runs whose records have so many bytes in the mean.
    pub(in crate::lsm) fn helpers(&self, runs: usize, mean: u64) -> usize {
        let memory = self.files.environment().memory.budget() / self.sizes.helpers_part;
        self.sizes.helpers.min(affordable(memory, runs, self.sizes.table / mean.max(1)))
    }

    /// Asks for so many threads that make parts as well.
    pub(in crate::lsm) fn call_helpers<W: Work + 'static>(
        &self,
        what: &'static str,
        parts: &Arc<Parts<W>>,
        count: usize,
    ) {
        for _ in 0..count {
            // Who comes late finds nothing, and keeps nothing.
            let parts = Arc::downgrade(parts);
            let help = move || parts.upgrade().into_iter().for_each(|parts| parts.help());
            self.files.environment().scheduler.spawn(Priority::Compact, what, help);
        }
    }
}

/// How many threads may help with so much memory where so many runs are read, and a table has so many records.
fn affordable(memory: usize, runs: usize, records: u64) -> usize {
    memory / (runs * A_RUN + AN_OUTPUT + (A_RECORD * records) as usize)
}

/// Bytes of a record of tables in the mean.
pub(in crate::lsm) fn mean<'h>(handles: impl Iterator<Item = &'h Arc<Handle>>) -> u64 {
    let sums = handles
        .fold((0, 0), |(bytes, records), handle| (bytes + handle.table().bytes(), records + handle.table().records()));
    sums.0 / sums.1.max(1)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::lsm::family::HELPERS_PART;

    #[test]
    fn small_budgets_ask_for_no_help() {
        let of = |budget: usize, runs| affordable((budget << 20) / HELPERS_PART, runs, (8 << 20) / 108);
        assert_eq!([of(16, 2), of(16, 5), of(64, 2), of(220, 5), of(220, 16)], [0, 0, 1, 4, 2]);
    }
}
