//! One hash keyspace, as the database drives it.

use std::sync::{Arc, OnceLock};

use ecotone_substrate::{Error, Result, Seq};

use super::{Hash, Sizes, compact::Goals, install::Files, upkeep::Upkeep, walk::Walk as HashWalk};
use crate::engine::{
    Admission, Change, Check, Engine, Hashed, Operation, Outcome, RecordRef, Root, Stats, VisitValue, Walk,
};
use crate::merge::Merge;

/// A keyspace of an open database.
#[derive(Debug)]
pub(super) struct HashKeyspace {
    files: Arc<Files>,
    /// How large it is made, if not by the budget.
    sizes: Option<Sizes>,
    goals: Goals,
    /// What there is once the database's log has told what belongs to the keyspace.
    running: OnceLock<Running>,
}

#[derive(Debug)]
struct Running {
    hash: Arc<Hash>,
    upkeep: Arc<Upkeep>,
}

impl HashKeyspace {
    /// An empty one, which has no files.
    pub(super) fn create(files: Arc<Files>, sizes: Sizes, goals: Goals) -> Result<HashKeyspace> {
        let hash = Hash::create(&files, sizes)?;
        let keyspace = HashKeyspace::open(files, Some(sizes), goals);
        keyspace.run(hash);
        Ok(keyspace)
    }

    /// One of an earlier life. Replay follows.
    pub(super) fn open(files: Arc<Files>, sizes: Option<Sizes>, goals: Goals) -> HashKeyspace {
        HashKeyspace { files, sizes, goals, running: OnceLock::new() }
    }

    fn run(&self, hash: Hash) {
        let hash = Arc::new(hash);
        hash.join();
        let upkeep = Upkeep::new(hash.clone(), self.files.clone(), self.goals);
        upkeep.watch_use();
        self.running.set(Running { hash, upkeep }).expect("a structure is recovered once");
    }

    fn running(&self) -> &Running {
        self.running.get().expect("nothing is asked for before the structure is recovered")
    }

    fn hash(&self) -> &Arc<Hash> {
        &self.running().hash
    }

    #[cfg(test)]
    pub(super) fn upkeep(&self) -> &Arc<Upkeep> {
        &self.running().upkeep
    }

    /// What there is, unless the keyspace was dropped.
    #[inline]
    fn live(&self) -> Result<&Running> {
        self.files.check_live().map(|()| self.running())
    }

    /// The records, for who reads so many keys, which may have taken memory for copies.
    #[inline]
    fn read(&self, keys: usize) -> Result<&Arc<Hash>> {
        let Running { hash, upkeep } = self.live()?;
        hash.count_uses(keys);
        upkeep.call();
        Ok(hash)
    }

    /// The records, for one who writes.
    #[inline]
    fn write(&self) -> Result<&Arc<Hash>> {
        let Running { hash, .. } = self.live()?;
        hash.count_uses(1);
        Ok(hash)
    }

    /// The same for an operation, which is refused if it adds something and there is no space left.
    #[inline]
    fn write_value(&self, is_value: bool) -> Result<&Arc<Hash>> {
        let hash = self.write()?;
        // A batch is paced once, before it, and may be larger than what is left.
        self.running().upkeep.look_again();
        match self.running().upkeep.refusal() {
            Some(refusal) if is_value => Err(refusal),
            _ => Ok(hash),
        }
    }

    /// What a checkpoint leaves.
    pub(super) fn root(&self) -> Result<Root> {
        let hash = &self.live()?.hash;
        Ok(self.files.root(|| hash.log.bounds().durable()))
    }
}

impl Engine for HashKeyspace {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read(1)?.get_into(key, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.read(keys.len())?.multi_get(&*self.files.environment().storage, keys, found)
    }

    fn pace(&self, bytes: usize, adds: bool) -> Result<()> {
        self.live()?.upkeep.call_for_write(bytes, adds)
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission> {
        self.write_value(operation.value.is_some())?.admit(operation).map(Admission)
    }

    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>) {
        let hash = self.hash();
        // Of a keyspace that was dropped since the write was admitted nobody reads anything.
        if !self.files.is_retired() {
            hash.apply(seq, operation, &self.files.environment().health);
        }
        hash.give_back(admission.0);
    }

    fn cancel(&self, admission: Admission) {
        self.hash().give_back(admission.0);
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.hash().log.first_unflushed()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        let flushed =
            self.live().and_then(|running| running.hash.flush(&self.files, below)).and_then(|()| self.files.bury());
        match flushed {
            // It was dropped while the database is flushed: nothing of it is to be kept.
            Err(Error::Closed { .. }) if self.files.is_retired() => Ok(()),
            flushed => flushed,
        }
    }

    fn before_close(&self) -> Result<()> {
        match self.live().and_then(|running| running.upkeep.compactor().compact_for_close()) {
            // It was dropped, or the hot log stays as it is: a flush writes it out, and the next opening links it.
            Err(error) if error.is_shortage() || self.files.is_retired() => Ok(()),
            compacted => compacted,
        }
    }

    fn checkpoint(&self) -> Result<Root> {
        self.root()
    }

    fn checkpoint_is_durable(&self) {
        // What goes wrong stops all writing, and the next opening removes what stays.
        let _ = self.files.bury();
    }

    fn replay_structure(&self, _seq: Seq, body: &[u8]) -> Result<()> {
        self.files.replay(body)
    }

    fn structure_recovered(&self) -> Result<()> {
        self.run(Hash::recover(&self.files, self.sizes, self.goals)?);
        Ok(())
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        // What was acknowledged is not refused, and nobody is kept waiting by it for the pace of what comes later.
        self.live()?.upkeep.call();
        let admission = self.write()?.admit(operation).map(Admission)?;
        self.apply(admission, seq, operation);
        Ok(())
    }

    fn verify(&self) -> Result<Check> {
        self.live()?.hash.check(&self.files)
    }

    fn stats(&self) -> Stats {
        let Running { hash, upkeep } = self.running();
        let budget =
            self.files.budget().map(|budget| [("disk_limit_bytes", budget.limit()), ("disk_bytes", budget.used())]);
        hash.stats().into_iter().chain(upkeep.delays()).chain(budget.into_iter().flatten()).collect()
    }

    fn retire(&self) {
        self.files.retire();
    }
}

impl Hashed for HashKeyspace {
    fn walk(self: Arc<Self>) -> Box<dyn Walk> {
        match self.live() {
            Ok(running) => {
                running.hash.touch();
                Box::new(HashWalk::new(running.hash.clone()))
            }
            Err(error) => Box::new(Refused(Some(error))),
        }
    }

    fn modify(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        self.pace(key.len(), true)?;
        let hash = self.write()?;
        let Some(refusal) = self.running().upkeep.refusal() else { return hash.modify(key, change) };
        let mut refused = false;
        hash.modify(key, &mut |old, new| {
            let outcome = change(old, new);
            refused = outcome == Outcome::Store;
            if refused { Outcome::Keep } else { outcome }
        })?;
        if refused { Err(refusal) } else { Ok(()) }
    }

    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        self.pace(key.len(), true)?;
        self.write_value(true)?.merge(key, merge)
    }

    fn put(&self, operation: Operation<'_>) -> Result<()> {
        self.pace(0, operation.value.is_some())?;
        self.write_value(operation.value.is_some())?.put(operation)
    }
}

/// A walk over a keyspace that was dropped: an error, and then nothing.
struct Refused(Option<Error>);

impl Walk for Refused {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.0.take().map_or(Ok(None), Err)
    }
}
