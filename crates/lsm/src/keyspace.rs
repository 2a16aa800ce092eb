//! One LSM keyspace, as the database drives it: the implementation of [`Engine`] and [`Ordered`].

use std::sync::{Arc, OnceLock};

use ecotone_engine::{
    contract::{
        Access, Admission, Capabilities, Check, Compactable, Cursor, Engine, EngineCheckpoint, Maintained, Operation,
        Ordered, Progress, Range, Record, Recover, Release, Stats, VisitValue,
    },
    record_cache::RecordCache,
};
use ecotone_substrate::{Error, Result, Seq, memory::Component, storage::FileId};

use crate::{
    blob, bulk,
    cache::table_reader::TableReader,
    check,
    compaction::full::FullCompaction,
    counters,
    deps::LsmDeps,
    manifest::PagedRanges,
    memtable::{pool::MemtablePool, slab_reserve::Reservation},
    pages::conversion::Conversion,
    read::{iterator::cursor, multi_get::multi_get},
    store::{Lsm, ReadObserver},
    tuning::Tuning,
    version::{Version, version_set::VersionSet},
};

/// A keyspace of an open database.
#[derive(Debug)]
pub struct LsmKeyspace {
    files: Arc<VersionSet>,
    tuning: Tuning,
    pool: Arc<MemtablePool>,
    deps: LsmDeps,
    read_observer: Option<Arc<dyn ReadObserver>>,
    /// The state of the keyspace, once the database's log has told which tables belong to it.
    lsm: OnceLock<Arc<Lsm>>,
}

impl LsmKeyspace {
    /// A keyspace whose tables are not known yet. Replay or [`begin_empty`](Self::begin_empty) follows.
    pub(super) fn open(
        files: VersionSet,
        tuning: Tuning,
        pool: Arc<MemtablePool>,
        deps: LsmDeps,
        read_observer: Option<Arc<dyn ReadObserver>>,
    ) -> LsmKeyspace {
        LsmKeyspace { files: Arc::new(files), tuning, pool, deps, read_observer, lsm: OnceLock::new() }
    }

    /// Begins a new keyspace, which has no files, in place of a replay.
    pub(super) fn begin_empty(self) -> LsmKeyspace {
        self.run(Version::empty());
        self
    }

    fn run(&self, version: Version<TableReader>) {
        let (deps, read_observer) = (self.deps.clone(), self.read_observer.clone());
        let lsm = Arc::new(Lsm::new(&self.files, self.tuning, &self.pool, version, deps, read_observer));
        lsm.throttle.stall.forgive_inherited_debt();
        lsm.update_debt();
        self.pool.add(&lsm);
        lsm.watch_use();
        self.lsm.set(lsm).expect("a structure is recovered once");
    }

    /// The state of the keyspace, once its structure is recovered.
    pub fn lsm(&self) -> &Arc<Lsm> {
        self.lsm.get().expect("nothing is asked for before the structure is recovered")
    }

    /// The checkpoint of the tables and the paged ranges, both at the moment of the log at which `begin` runs: no edit
    /// of the structure is logged meanwhile.
    pub fn checkpoint_with<T>(&self, begin: impl FnOnce() -> T) -> (T, Vec<u8>, PagedRanges) {
        let state = self.files.lock_structure();
        let (begun, manifest) = (begin(), state.manifest());
        (begun, blob::encode(*self.files.options(), manifest), manifest.paged_ranges().as_ref().clone())
    }

    /// The version set.
    pub(crate) fn files(&self) -> &VersionSet {
        &self.files
    }

    /// As [`Recover::structure_recovered`], for a keyspace with other files `beside` its tables, which are no orphans.
    /// Its page tier, if it has one, was recovered before.
    pub fn recover(&self, beside: &[FileId]) -> Result<()> {
        self.run(self.files.recover(beside)?);
        let Some(conversion) = Conversion::of(self.lsm()) else { return Ok(()) };
        if conversion.misplaced_bounds() > 0 {
            return Err(self.files.invalid_edit("a paged range ends within a segment"));
        }
        conversion.set_boundaries();
        Ok(())
    }

    /// An error if the keyspace was dropped.
    pub fn check_live(&self) -> Result<()> {
        self.live().map(|_| ())
    }

    /// The state of the keyspace, unless that was dropped.
    #[inline]
    fn live(&self) -> Result<&Arc<Lsm>> {
        let lsm = self.lsm();
        lsm.check_live().map(|()| lsm)
    }

    /// More statistics, of a keyspace with a page tier.
    pub fn page_stats(&self) -> [(&'static str, u64); 4] {
        counters::page_stats(self.lsm())
    }
}

impl Release for LsmKeyspace {
    fn release(&self, reserved: u64) {
        self.lsm().slabs.release(Reservation::of(reserved));
    }
}

impl Engine for LsmKeyspace {
    fn read_into(&self, key: &[u8], _access: Access, value: &mut Vec<u8>) -> Result<bool> {
        self.live()?.get_into(key, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        multi_get(self.live()?, keys, found)
    }

    fn throttle(&self, bytes: usize, adds: bool) -> Result<()> {
        let lsm = self.live()?;
        lsm.pace(bytes);
        if adds { lsm.check_space() } else { Ok(()) }
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        self.live()?.admit(operation).map(|reservation| Admission::new(self, reservation.words()))
    }

    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        self.lsm().apply(Reservation::of(admission.into_reserved()), seq, operation);
    }

    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        Ok(self.live()?.overwrite(self.files.context().shared.wal.tail(), operation))
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.lsm().current.get().first_unflushed()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        match self.live().and_then(|lsm| lsm.flush(below).inspect(|()| lsm.schedule_compaction_if_due())) {
            // The keyspace was dropped while the database is flushed: none of its records are to be kept.
            Err(Error::Closed { .. }) if self.files.is_retired() => Ok(()),
            flushed => flushed,
        }
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.live()?;
        Ok(self.files.checkpoint())
    }

    fn checkpoint_is_durable(&self) {
        // An error stops all writing, and the next opening deletes the files that stay.
        let _ = self.files.delete_obsolete();
    }

    fn verify(&self) -> Result<Check> {
        check::check(self.live()?)
    }

    fn stats(&self) -> Stats {
        counters::stats(self.lsm())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { compact: Some(self), maintenance: Some(self), ..Capabilities::default() }
    }

    fn mark_dropped(&self) {
        self.files.retire();
        self.lsm().record_cache().into_iter().for_each(RecordCache::invalidate);
    }
}

impl Compactable for LsmKeyspace {
    fn compact(&self, progress: &mut Progress<'_>) -> Result<()> {
        FullCompaction(self.live()?).run(progress)
    }
}

impl Maintained for LsmKeyspace {
    fn begin_flush(&self, below: Seq) {
        // An error shows again in the flush itself.
        _ = self.live().and_then(|lsm| lsm.begin_flush(below));
    }
}

impl Recover for LsmKeyspace {
    fn replay_structure(&self, _seq: Seq, body: &[u8]) -> Result<()> {
        self.files.replay(body)
    }

    fn structure_recovered(&self) -> Result<()> {
        self.recover(&[])
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        let lsm = self.lsm();
        lsm.apply(lsm.admit_logged(operation)?, seq, operation);
        Ok(())
    }

    fn recovered(&self) -> Result<()> {
        self.lsm().read_observer().into_iter().for_each(|observer| observer.on_replayed());
        self.lsm().reports().begin();
        Ok(())
    }
}

impl Ordered for LsmKeyspace {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        cursor(self.lsm().clone(), range, memory)
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        bulk::load_sorted(self.live()?, records)
    }
}
