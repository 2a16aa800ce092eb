//! One hash keyspace: implements the engine interface of the database over [`struct@Hash`].

use std::sync::{Arc, OnceLock};

use ecotone_engine::{
    contract::{
        Access, Admission, Capabilities, Check, Engine, EngineCheckpoint, Hashed, Maintained, Operation, RecordRef,
        Recover, Release, Stats, UnorderedCursor, UpdateAction, UpdateFn, VisitValue,
    },
    merge::Merge,
};
use ecotone_substrate::{Error, Result, Seq};

use super::{
    Hash, Sizes, background::BackgroundController, check::check, compact::CompactionLimits, flush::flush,
    install::Files, stats, walk::HashCursor as HashWalk,
};

/// A keyspace of an open database.
#[derive(Debug)]
pub(super) struct HashKeyspace {
    files: Arc<Files>,
    /// Sizes that replace those of the budget.
    sizes: Option<Sizes>,
    limits: CompactionLimits,
    /// Set when the database has replayed the structure changes of its log.
    running: OnceLock<Running>,
}

#[derive(Debug)]
struct Running {
    hash: Arc<Hash>,
    background: Arc<BackgroundController>,
}

impl HashKeyspace {
    /// An empty keyspace, without files.
    pub(super) fn create(files: Arc<Files>, sizes: Sizes, limits: CompactionLimits) -> Result<HashKeyspace> {
        let hash = Hash::create(&files, sizes)?;
        let keyspace = HashKeyspace::open(files, Some(sizes), limits);
        keyspace.run(hash);
        Ok(keyspace)
    }

    /// A keyspace of an earlier session. Replay follows.
    pub(super) fn open(files: Arc<Files>, sizes: Option<Sizes>, limits: CompactionLimits) -> HashKeyspace {
        HashKeyspace { files, sizes, limits, running: OnceLock::new() }
    }

    fn run(&self, hash: Hash) {
        let hash = Arc::new(hash);
        hash.join();
        let background = BackgroundController::new(hash.clone(), self.files.clone(), self.limits);
        background.watch_use();
        self.running.set(Running { hash, background }).expect("a structure is recovered once");
    }

    fn running(&self) -> &Running {
        self.running.get().expect("nothing is asked for before the structure is recovered")
    }

    fn hash(&self) -> &Arc<Hash> {
        &self.running().hash
    }

    #[cfg(test)]
    pub(super) fn background(&self) -> &Arc<BackgroundController> {
        &self.running().background
    }

    /// The running keyspace.
    #[inline]
    fn live(&self) -> Result<&Running> {
        self.files.check_live().map(|()| self.running())
    }

    /// The keyspace for a read of `keys` keys. Earlier reads may have taken memory for the read cache, so this starts
    /// due background work.
    #[inline]
    fn read(&self, keys: usize) -> Result<&Arc<Hash>> {
        let Running { hash, background } = self.live()?;
        hash.count_uses(keys);
        background.call();
        Ok(hash)
    }

    /// The keyspace for a write.
    #[inline]
    fn write(&self) -> Result<&Arc<Hash>> {
        let Running { hash, .. } = self.live()?;
        hash.count_uses(1);
        Ok(hash)
    }

    /// The keyspace for an operation, which is refused if it adds a value and there is no space left.
    #[inline]
    fn write_value(&self, is_value: bool) -> Result<&Arc<Hash>> {
        let hash = self.write()?;
        // A batch is throttled once, before it starts, and may be larger than the free space.
        self.running().background.look_again();
        match self.running().background.refusal() {
            Some(refusal) if is_value => Err(refusal),
            _ => Ok(hash),
        }
    }

    /// The checkpoint of the keyspace.
    pub(super) fn take_checkpoint(&self) -> Result<EngineCheckpoint> {
        let hash = &self.live()?.hash;
        Ok(self.files.checkpoint(|| hash.chains.log.bounds().durable()))
    }
}

impl Release for HashKeyspace {
    fn release(&self, reserved: u64) {
        self.hash().reservations.give_back(reserved);
    }
}

impl Engine for HashKeyspace {
    fn read_into(&self, key: &[u8], _access: Access, value: &mut Vec<u8>) -> Result<bool> {
        self.read(1)?.get_into(key, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.read(keys.len())?.multi_get(&*self.files.environment().storage, keys, found)
    }

    fn throttle(&self, bytes: usize, adds: bool) -> Result<()> {
        self.live()?.background.call_for_write(bytes, adds)
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        let hash = self.write_value(operation.value.is_some())?;
        hash.reservations.admit(&hash.chains, operation).map(|reserved| Admission::new(self, reserved))
    }

    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        // If the keyspace was dropped since admission, nothing reads it any more.
        let hash = self.hash();
        if !self.files.is_retired() {
            hash.apply(seq, operation, &self.files.environment().health);
        }
        // The record has taken its space from the log.
        hash.reservations.give_back(admission.into_reserved());
    }

    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        self.throttle(0, operation.value.is_some())?;
        self.write_value(operation.value.is_some())?.put(operation).map(|()| true)
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.hash().chains.log.first_unflushed()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        let flushed = self
            .live()
            .and_then(|running| flush(&running.hash.chains.log, &running.hash.cold, &self.files, below))
            .and_then(|()| self.files.delete_obsolete());
        match flushed {
            // The keyspace was dropped during the flush, so nothing of it has to be kept.
            Err(Error::Closed { .. }) if self.files.is_retired() => Ok(()),
            flushed => flushed,
        }
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.take_checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        // An error stops all writing, and the next opening removes the files that stay.
        let _ = self.files.delete_obsolete();
    }

    fn verify(&self) -> Result<Check> {
        check(&self.live()?.hash, &self.files)
    }

    fn stats(&self) -> Stats {
        let Running { hash, background } = self.running();
        let budget =
            self.files.budget().map(|budget| [("disk_limit_bytes", budget.limit()), ("disk_bytes", budget.used())]);
        stats::stats(hash).into_iter().chain(background.delays()).chain(budget.into_iter().flatten()).collect()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { maintenance: Some(self), ..Capabilities::default() }
    }

    fn mark_dropped(&self) {
        self.files.retire();
    }
}

impl Maintained for HashKeyspace {
    fn before_close(&self) -> Result<()> {
        match self.live().and_then(|running| running.background.compactor().compact_for_close()) {
            // The keyspace was dropped, or the hot log stays as it is: a flush writes it out, and the next opening
            // links it.
            Err(error) if error.is_shortage() || self.files.is_retired() => Ok(()),
            compacted => compacted,
        }
    }
}

impl Recover for HashKeyspace {
    fn replay_structure(&self, _seq: Seq, body: &[u8]) -> Result<()> {
        self.files.replay(body)
    }

    fn structure_recovered(&self) -> Result<()> {
        self.run(Hash::recover(&self.files, self.sizes, self.limits)?);
        Ok(())
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        // An acknowledged write is not refused, and replay is not throttled.
        self.live()?.background.call();
        let hash = self.write()?;
        let reserved = hash.reservations.admit(&hash.chains, operation)?;
        let admission = Admission::new(self, reserved);
        self.apply(admission, seq, operation);
        Ok(())
    }

    fn recovered(&self) -> Result<()> {
        self.hash().chains.begin_reports();
        Ok(())
    }
}

impl Hashed for HashKeyspace {
    fn walk(self: Arc<Self>) -> Box<dyn UnorderedCursor> {
        match self.live() {
            Ok(running) => {
                running.hash.touch();
                Box::new(HashWalk::new(running.hash.clone()))
            }
            Err(error) => Box::new(Refused(Some(error))),
        }
    }

    fn modify(&self, key: &[u8], change: &mut UpdateFn<'_>) -> Result<()> {
        self.throttle(key.len(), true)?;
        let hash = self.write()?;
        let Some(refusal) = self.running().background.refusal() else { return hash.modify(key, change) };
        let mut refused = false;
        hash.modify(key, &mut |old, new| {
            let outcome = change(old, new);
            refused = outcome == UpdateAction::Store;
            if refused { UpdateAction::Keep } else { outcome }
        })?;
        if refused { Err(refusal) } else { Ok(()) }
    }

    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        self.throttle(key.len(), true)?;
        self.write_value(true)?.merge(key, merge)
    }
}

/// A walk over a keyspace that was dropped: an error, and then nothing.
struct Refused(Option<Error>);

impl UnorderedCursor for Refused {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.0.take().map_or(Ok(None), Err)
    }
}
