//! Sorted bulk load: tables straight into the last level, one after the other (decision 11, "The contracts that
//! change", 2).

use std::{iter, ops::Bound, sync::Arc};

use ecotone_substrate::{Result, Seq, memory::Component};

use super::{
    compact::cuts::Cuts,
    handle::Handle,
    output::{self, Output},
    records::Lsm,
    scan::Scan,
    structure::{Change, Place},
    version::{Ranged, Version},
};
use crate::{
    bulk::ascends,
    engine::{Cursor, Record},
    front::Front,
};

/// Records that are given one after the other.
type Records<'r> = dyn Iterator<Item = Result<Record>> + 'r;

/// A load that is on its way.
struct Load<'l> {
    lsm: &'l Arc<Lsm>,
    /// The largest key so far.
    last: Option<Vec<u8>>,
    /// The run that it has made, if it had to make one.
    run: Option<Place>,
    /// Bytes of a record in the mean of the last table.
    mean: Option<usize>,
    loaded: u64,
}

impl Lsm {
    /// Loads ascending records above every key present. After a crash the first tables of them are there.
    pub(super) fn load_sorted(self: &Arc<Self>, records: &mut Records<'_>) -> Result<u64> {
        // What was deleted before must not be above what is loaded.
        self.flush(Seq::MAX)?;
        let mut load = Load { lsm: self, last: self.last_key()?, run: None, mean: None, loaded: 0 };
        let ended = loop {
            match load.next_table(records) {
                Ok(true) => {}
                ended => break ended,
            }
        };
        let wal = &self.files.context().shared.wal;
        wal.sync_through(wal.tail().saturating_sub(1))?;
        ended.map(|_| load.loaded)
    }

    /// The largest key.
    fn last_key(self: &Arc<Self>) -> Result<Option<Vec<u8>>> {
        let mut scan = Scan::new(self.clone(), (Bound::Unbounded, Bound::Unbounded), Component::Frames);
        Ok(scan.next_back()?.map(|(key, _)| key.to_vec()))
    }
}

impl Load<'_> {
    /// Fills a table and installs it. False behind the last. What is wrong with a record leaves those before it.
    fn next_table(&mut self, records: &mut Records<'_>) -> Result<bool> {
        let Some(first) = self.next(records)? else { return Ok(false) };
        self.lsm.files.context().begin_session()?;
        let (lsm, seq) = (self.lsm, self.lsm.files.context().shared.wal.tail());
        let mean = self.mean.unwrap_or(first.0.len() + first.1.len());
        let options = lsm.table_options(Place::Level(1), mean, iter::empty(), &lsm.version());
        let (name, cuts) = (&mut || lsm.files.fresh_name(), Cuts::new(lsm.sizes.table, None));
        let mut output = Output::new(lsm.files.loader(), options, cuts, name);
        let (first_key, mut next) = (first.0.clone(), Ok(Some(first)));
        while let Ok(Some((key, value))) = &next {
            output.push(lsm.hash(key), key, Some(value), (seq, seq))?;
            self.last = Some(key.clone());
            if output.table_bytes() >= lsm.sizes.table {
                break;
            }
            next = self.next(records);
        }
        self.install(&output.finish()?, &first_key)?;
        next.map(|more| more.is_some())
    }

    /// The next record, which is above all before.
    fn next(&self, records: &mut Records<'_>) -> Result<Option<Record>> {
        records.next().map(|record| record.and_then(|record| ascends(self.last.as_deref(), record))).transpose()
    }

    /// Makes tables, of which this is the first key, a part of the keyspace.
    fn install(&mut self, tables: &[Arc<Handle>], first: &[u8]) -> Result<()> {
        let lsm = self.lsm;
        lsm.idle.begin_anew();
        // So that neither levels nor ordinals change.
        let (compacting, flushing) = (lsm.compacting.lock(), lsm.flushing.lock());
        let installed = self.install_in_turn(tables, first);
        drop(flushing);
        lsm.call_flush();
        lsm.end_turn(compacting);
        installed
    }

    fn install_in_turn(&mut self, tables: &[Arc<Handle>], first: &[u8]) -> Result<()> {
        let lsm = self.lsm;
        let place = self.place_for(first)?;
        let comes = tables.iter().map(|handle| (place, handle.file())).collect();
        let change = Change { comes, ..Change::default() };
        let before = lsm.version();
        let last = self.last.as_deref().expect("a load has records");
        lsm.ledger().into_iter().for_each(|ledger| ledger.forget(first, last));
        let installed = lsm.install(&change, tables, |version| lsm.present.installed(version));
        installed.inspect_err(|_| output::remove(lsm.files.environment(), tables))?;
        if place.is_run() && may_have_values_from(&before, first) {
            // What a cache has of these keys, or takes in from the version before, is older.
            lsm.front().into_iter().for_each(Front::forget);
        }
        self.run = Some(place).filter(|place| place.is_run());
        for handle in tables {
            let table = handle.table();
            self.loaded += table.records();
            self.mean = Some((table.bytes() / table.records()) as usize);
        }
        Ok(())
    }

    /// The last level, or a run where there are tombstones of the keys that are loaded, or what others have written
    /// behind them, or a cover under which the level does not count.
    fn place_for(&self, first: &[u8]) -> Result<Place> {
        let version = self.lsm.version();
        let last = Place::Level(1);
        if version.tables().all(|handle| handle.last() < first) && version.covers().counts_from(last, first) {
            return Ok(last);
        }
        let is_behind =
            |run: &Place| version.run(*run).is_some_and(|run| run.tables().iter().all(|handle| handle.last() < first));
        match self.run.filter(is_behind).filter(|run| version.covers().counts_from(*run, first)) {
            Some(run) => Ok(run),
            None => self.lsm.files.next_ordinal().map(Place::Run),
        }
    }
}

/// Whether a version may have values of this key or of any above it: others have written them since the load began.
fn may_have_values_from(version: &Version<Handle>, first: &[u8]) -> bool {
    let has_values = |handle: &Handle| handle.last() >= first && handle.table().records() > handle.table().tombstones();
    version.tables().any(|handle| has_values(handle)) || version.covers().iter().any(|cover| cover.bounds().1 > first)
}
