//! One lsm keyspace, as the database drives it.

use std::sync::{Arc, OnceLock};

use ecotone_substrate::{Error, Result, Seq, memory::Component, storage::FileId};

use super::{
    base::Around,
    family::Sizes,
    handle::Handle,
    install::Files,
    ledger::Ledger,
    pool::Pool,
    records::Lsm,
    room::Credit,
    scan::Scan,
    version::{Ranged, Version},
};
use crate::{
    engine::{Admission, Check, Cursor, Engine, Operation, Ordered, Progress, Range, Record, Root, Stats, VisitValue},
    front::Front,
};

/// A keyspace of an open database.
#[derive(Debug)]
pub(crate) struct LsmKeyspace {
    files: Arc<Files>,
    sizes: Sizes,
    pool: Arc<Pool>,
    around: Around,
    /// What there is once the database's log has told which tables belong to the keyspace.
    lsm: OnceLock<Arc<Lsm>>,
}

impl LsmKeyspace {
    /// An empty one, which has no files.
    pub(super) fn create(files: Files, sizes: Sizes, pool: Arc<Pool>, around: Around) -> LsmKeyspace {
        let keyspace = LsmKeyspace::open(files, sizes, pool, around);
        keyspace.run(Version::empty());
        keyspace
    }

    /// One of an earlier life. Replay follows.
    pub(super) fn open(files: Files, sizes: Sizes, pool: Arc<Pool>, around: Around) -> LsmKeyspace {
        LsmKeyspace { files: Arc::new(files), sizes, pool, around, lsm: OnceLock::new() }
    }

    fn run(&self, version: Version<Handle>) {
        let lsm = Arc::new(Lsm::new(&self.files, self.sizes, &self.pool, version, self.around.clone()));
        lsm.inherit_debt();
        self.pool.add(&lsm);
        lsm.watch_use();
        self.lsm.set(lsm).expect("a structure is recovered once");
    }

    pub(crate) fn lsm(&self) -> &Arc<Lsm> {
        self.lsm.get().expect("nothing is asked for before the structure is recovered")
    }

    /// Its files, and how they change.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// As [`Engine::structure_recovered`], where files of the keyspace are beside its tables that are no strays.
    pub(crate) fn recover(&self, beside: &[FileId]) -> Result<()> {
        self.run(self.files.recover(beside)?);
        Ok(())
    }

    /// An error if the keyspace was dropped.
    pub(crate) fn check_live(&self) -> Result<()> {
        self.live().map(|_| ())
    }

    /// The keyspace's number.
    pub(crate) fn number(&self) -> u32 {
        self.files.context().keyspace
    }

    /// A random number.
    pub(crate) fn chance(&self) -> u64 {
        self.files.context().shared.clock.random()
    }

    /// The first and last keys of all tables, and the bounds of all covers.
    pub(crate) fn bounds(&self) -> Vec<Vec<u8>> {
        let version = self.lsm().version();
        let of_tables = version.tables().flat_map(|handle| [handle.first(), handle.last()]);
        of_tables.chain(version.covers().bounds()).map(<[u8]>::to_vec).collect()
    }

    /// What there is, unless the keyspace was dropped.
    #[inline]
    fn live(&self) -> Result<&Arc<Lsm>> {
        let lsm = self.lsm();
        lsm.check_live().map(|()| lsm)
    }
}

#[cfg(all(test, not(feature = "loom")))]
impl LsmKeyspace {
    /// Has the next scans read again what was kept.
    pub(crate) fn forget_blocks(&self) {
        self.lsm().files.loader().cache().blocks().shrink(usize::MAX);
    }
}

impl Engine for LsmKeyspace {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.live()?.get_into(key, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.live()?.multi_get(keys, found)
    }

    fn pace(&self, bytes: usize, adds: bool) -> Result<()> {
        let lsm = self.live()?;
        lsm.pace(bytes);
        if adds { lsm.check_space() } else { Ok(()) }
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission> {
        self.live()?.admit(operation).map(|credit| Admission(credit.words()))
    }

    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>) {
        self.lsm().apply(Credit::of(admission.0), seq, operation);
    }

    fn overwrite(&self, operation: Operation<'_>) -> bool {
        self.live().is_ok_and(|lsm| lsm.overwrite(self.files.context().shared.wal.tail(), operation))
    }

    fn cancel(&self, admission: Admission) {
        self.lsm().room.give_back(Credit::of(admission.0));
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.lsm().present.get().first_unflushed()
    }

    fn begin_flush(&self, below: Seq) {
        // What goes wrong is met again by who flushes.
        _ = self.live().and_then(|lsm| lsm.begin_flush(below));
    }

    fn flush(&self, below: Seq) -> Result<()> {
        match self.live().and_then(|lsm| lsm.flush(below).inspect(|()| lsm.call_compaction())) {
            // It was dropped while the database is flushed: nothing of it is to be kept.
            Err(Error::Closed { .. }) if self.files.is_retired() => Ok(()),
            flushed => flushed,
        }
    }

    fn checkpoint(&self) -> Result<Root> {
        self.live()?;
        Ok(self.files.root())
    }

    fn checkpoint_is_durable(&self) {
        // What goes wrong stops all writing, and the next opening removes what stays.
        let _ = self.files.bury();
    }

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
        self.lsm().ledger().into_iter().for_each(Ledger::replayed);
        Ok(())
    }

    fn compact(&self, progress: &mut Progress<'_>) -> Result<bool> {
        self.live()?.compact_all(progress).map(|()| true)
    }

    fn verify(&self) -> Result<Check> {
        self.live()?.check()
    }

    fn stats(&self) -> Stats {
        self.lsm().stats()
    }

    fn retire(&self) {
        self.files.retire();
        self.lsm().front().into_iter().for_each(Front::forget);
    }
}

impl Ordered for LsmKeyspace {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        Box::new(Scan::new(self.lsm().clone(), range, memory))
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        self.live()?.load_sorted(records)
    }
}
