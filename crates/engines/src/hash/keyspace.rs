//! One hash keyspace, as the database drives it.

use std::sync::{Arc, OnceLock};

use ecotone_substrate::{Error, Result, Seq};
use ecotone_sys::primitive::atomic::{AtomicBool, Ordering};

use super::{Hash, Sizes, install::Files, walk::Walk as HashWalk};
use crate::engine::{Admission, Change, Check, Engine, Hashed, Operation, RecordRef, Root, Stats, Walk};
use crate::merge::Merge;

/// A keyspace of an open database.
#[derive(Debug)]
pub(super) struct HashKeyspace {
    files: Arc<Files>,
    /// The records, once the database's log has told what belongs to the keyspace.
    hash: OnceLock<Arc<Hash>>,
    retired: AtomicBool,
}

impl HashKeyspace {
    /// An empty one, which has no files.
    pub(super) fn create(files: Arc<Files>, sizes: Sizes) -> Result<HashKeyspace> {
        let hash = Arc::new(Hash::create(&files, sizes)?);
        Ok(HashKeyspace { files, hash: OnceLock::from(hash), retired: AtomicBool::new(false) })
    }

    /// One of an earlier life. Replay follows.
    pub(super) fn open(files: Arc<Files>) -> HashKeyspace {
        HashKeyspace { files, hash: OnceLock::new(), retired: AtomicBool::new(false) }
    }

    fn hash(&self) -> &Arc<Hash> {
        self.hash.get().expect("nothing is asked for before the structure is recovered")
    }

    /// The records, unless the keyspace was dropped.
    #[inline]
    fn live(&self) -> Result<&Arc<Hash>> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(self.hash()) }
    }

    /// What a checkpoint leaves.
    pub(super) fn root(&self) -> Result<Root> {
        let hash = self.live()?;
        Ok(self.files.root(|| hash.log.bounds().durable()))
    }
}

impl Engine for HashKeyspace {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.live()?.get_into(key, value)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let (mut values, storage) = (vec![None; keys.len()], &*self.files.environment().storage);
        self.live()?.multi_get(storage, keys, |number, value| values[number] = value.map(<[u8]>::to_vec))?;
        Ok(values)
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission> {
        self.live()?.admit(operation).map(Admission)
    }

    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>) {
        let hash = self.hash();
        // Of a keyspace that was dropped since the write was admitted nobody reads anything.
        if !self.retired.load(Ordering::Acquire) {
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
        self.live()?.flush(&self.files, below)?;
        self.files.bury()
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
        let hash = Arc::new(Hash::recover(&self.files)?);
        self.hash.set(hash).expect("a structure is recovered once");
        Ok(())
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        let admission = self.admit(operation)?;
        self.apply(admission, seq, operation);
        Ok(())
    }

    fn verify(&self) -> Result<Check> {
        self.live()?.check(&self.files)
    }

    fn stats(&self) -> Stats {
        self.hash().stats()
    }

    fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Hashed for HashKeyspace {
    fn walk(self: Arc<Self>) -> Box<dyn Walk> {
        match self.live() {
            Ok(hash) => Box::new(HashWalk::new(hash.clone())),
            Err(error) => Box::new(Refused(Some(error))),
        }
    }

    fn modify(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        self.live()?.modify(key, change)
    }

    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        self.live()?.merge(key, merge)
    }

    fn put(&self, operation: Operation<'_>) -> Result<()> {
        self.live()?.put(operation)
    }
}

/// A walk over a keyspace that was dropped: an error, and then nothing.
struct Refused(Option<Error>);

impl Walk for Refused {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.0.take().map_or(Ok(None), Err)
    }
}
