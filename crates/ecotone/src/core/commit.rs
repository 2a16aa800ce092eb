//! The commit path: admit, reserve, lock, append, apply, acknowledge (commit-and-recovery.md, "Commit path").

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use ecotone_engine::contract::{Admission, Operation};
use ecotone_substrate::{
    Seq,
    lock_rank::{self, HeldRank, LockRank},
    wal::{BatchEncoder, RecordKind, ReservationKind, Wal},
};

use super::{
    gaps::InsertGuard,
    keyspace_state::KeyspaceState,
    limits_check,
    state::DatabaseState,
    stripes::{self, StripeGuard},
};
use crate::{Durability, Error, Result, limits};

/// Capacity, in bytes, of the buffer that a thread keeps for its encoded records. Every single record fits, so only
/// batches allocate.
const KEPT: usize = 4096;
/// Bytes that a record takes in a cache beyond key and value, by the accounting of the log.
const RECORD_OVERHEAD: usize = 32;

ecotone_sys::primitive::thread_local! {
    /// This thread's buffer for encoded records, so that a write does not allocate.
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One operation of a commit and its target keyspace.
#[derive(Clone, Copy)]
pub(crate) struct TargetedOperation<'a> {
    pub(crate) space: &'a KeyspaceState,
    pub(crate) operation: Operation<'a>,
}

/// The batch without deletes from unwritten keyspaces that the batch does not write to either.
fn without_noops<'a, 't>(targets: &'a [TargetedOperation<'t>]) -> Cow<'a, [TargetedOperation<'t>]> {
    if !targets.iter().any(TargetedOperation::is_noop) {
        return Cow::Borrowed(targets);
    }
    let adds = |target: &&TargetedOperation<'_>| target.operation.value.is_some();
    let growing: BTreeSet<u32> = targets.iter().filter(adds).map(|target| target.space.id).collect();
    targets.iter().copied().filter(|target| growing.contains(&target.space.id) || !target.is_noop()).collect()
}

impl TargetedOperation<'_> {
    /// Whether this is a delete from an unwritten keyspace. Such a delete must not create the files of the keyspace,
    /// since the disk may have no space for them.
    #[inline]
    fn is_noop(&self) -> bool {
        self.operation.value.is_none() && self.space.lazy.is_unwritten()
    }
}

impl<'a> TargetedOperation<'a> {
    /// Whether the insert must be registered with the gaps of its keyspace. The caller holds the stripe.
    #[inline]
    fn is_noted(&self) -> bool {
        self.operation.value.is_some() && self.space.gaps.are_noted()
    }

    /// Registers the insert with the gaps until the guard is dropped.
    #[inline]
    fn arrive(&self) -> Option<InsertGuard<'a>> {
        if self.is_noted() { self.space.gaps.arrive([self.operation.key].into_iter()) } else { None }
    }
}

/// Registers the inserts of a batch, once for each keyspace.
fn arrive<'a>(targets: &[TargetedOperation<'a>]) -> Vec<InsertGuard<'a>> {
    if let [target] = targets {
        return target.arrive().into_iter().collect();
    }
    let mut noted: BTreeMap<u32, Vec<&TargetedOperation<'a>>> = BTreeMap::new();
    for target in targets.iter().filter(|target| target.is_noted()) {
        noted.entry(target.space.id).or_default().push(target);
    }
    let keys = |of: &[&TargetedOperation<'a>]| of[0].space.gaps.arrive(of.iter().map(|target| target.operation.key));
    noted.values().filter_map(|of| keys(of)).collect()
}

impl DatabaseState {
    /// Writes one operation.
    pub(crate) fn write(&self, target: TargetedOperation<'_>, durability: Durability) -> Result<()> {
        if target.is_noop() {
            return self.check_noop(target, durability);
        }
        let stripe = self.stripes.of(target.space.id, target.operation.key);
        self.commit_one(target, durability, || Some(self.stripes.lock(stripe))).map(|_| ())
    }

    /// Writes one operation if the key's stripe still has `version`. False if the version has changed.
    pub(crate) fn write_if(&self, target: TargetedOperation<'_>, version: u64, durability: Durability) -> Result<bool> {
        if target.is_noop() {
            return self.check_noop(target, durability).map(|()| true);
        }
        let stripe = self.stripes.of(target.space.id, target.operation.key);
        self.commit_one(target, durability, || self.stripes.lock_if(stripe, version))
    }

    /// Writes several operations as one: they are recovered whole or not at all.
    pub(crate) fn write_batch(&self, targets: &[TargetedOperation<'_>], durability: Option<Durability>) -> Result<()> {
        let Some(first) = targets.first() else { return Ok(()) };
        if targets.iter().any(|target| target.space.logged != first.space.logged) {
            return Err(Error::Invalid(
                "a batch cannot mix logged and unlogged keyspaces; commit one batch for each".into(),
            ));
        }
        let durability = durability.unwrap_or(first.space.default_durability(self.durability));
        first.space.check_durability(durability)?;
        self.begin_writing()?;
        targets.iter().try_for_each(|target| limits_check::operation(target.operation))?;
        let targets = &*without_noops(targets);
        if targets.is_empty() {
            return self.wal.commit(self.wal.tail(), durability);
        }
        if targets.iter().any(|target| target.space.latch_free().is_some()) {
            return self.write_singly(targets, durability);
        }
        pace(targets)?;
        self.retry_without_memory(|| self.write_together(targets, durability))
    }

    /// Treats an operation that changes nothing like any other: the same errors apply, and earlier writes become as
    /// durable as the call asks for.
    fn check_noop(&self, target: TargetedOperation<'_>, durability: Durability) -> Result<()> {
        self.begin_writing()?;
        limits_check::operation(target.operation)?;
        target.space.check_durability(durability)?;
        self.wal.commit(self.wal.tail(), durability)
    }

    fn write_together(&self, targets: &[TargetedOperation<'_>], durability: Durability) -> Result<()> {
        let _inside = self.batches.enter(&self.scheduler, targets.iter().map(|target| target.operation))?;
        let stripes = targets.iter().map(|target| self.stripes.of(target.space.id, target.operation.key)).collect();
        self.commit(targets, durability, || Some(self.stripes.lock_all(stripes))).map(|_| ())
    }

    /// Writes an unlogged batch that includes an engine without stripes. The writes to that engine are made one by one,
    /// after the others.
    fn write_singly(&self, targets: &[TargetedOperation<'_>], durability: Durability) -> Result<()> {
        let others: Vec<TargetedOperation<'_>> =
            targets.iter().copied().filter(|target| target.space.latch_free().is_none()).collect();
        pace(&others)?;
        self.retry_without_memory(|| self.write_together(&others, durability))?;
        let singles = targets.iter().filter_map(|target| Some((target.space.latch_free()?, target.operation)));
        singles.into_iter().try_for_each(|(engine, operation)| self.retry_without_memory(|| engine.put(operation)))
    }

    /// Writes one operation. An unlogged write may replace a record that is not flushed yet, and then needs no
    /// admission. An engine that orders the writes of a key by itself needs no stripe either.
    fn commit_one<'a>(
        &'a self,
        target: TargetedOperation<'_>,
        durability: Durability,
        lock: impl Fn() -> Option<StripeGuard<'a>>,
    ) -> Result<bool> {
        self.begin_writing()?;
        limits_check::operation(target.operation)?;
        target.space.check_durability(durability)?;
        if let Some(engine) = target.space.latch_free() {
            return self.retry_without_memory(|| engine.put(target.operation)).map(|()| true);
        }
        if !target.space.logged {
            let Some(locked) = lock() else { return Ok(false) };
            let arrival = target.arrive();
            if target.space.engine().overwrite(target.operation) {
                return Ok(true);
            }
            drop(arrival);
            locked.unchanged();
        }
        pace(&[target])?;
        self.retry_without_memory(|| self.commit(&[target], durability, &lock))
    }

    /// The commit path. `lock` locks the stripes, or refuses because a version has changed. Then nothing is written and
    /// the result is false.
    fn commit<'a>(
        &'a self,
        targets: &[TargetedOperation<'_>],
        durability: Durability,
        lock: impl FnOnce() -> Option<StripeGuard<'a>>,
    ) -> Result<bool> {
        if targets.iter().all(|target| !target.space.logged) {
            return self.commit_unlogged(targets, lock);
        }
        ENCODED.with(|encoded| {
            let body = &mut *encoded.borrow_mut();
            let committed = self.commit_logged(targets, durability, lock, body);
            if body.capacity() > KEPT {
                *body = Vec::new();
            }
            committed
        })
    }

    fn commit_logged<'a>(
        &'a self,
        targets: &[TargetedOperation<'_>],
        durability: Durability,
        lock: impl FnOnce() -> Option<StripeGuard<'a>>,
        body: &mut Vec<u8>,
    ) -> Result<bool> {
        encode(targets, body)?;
        let room = if targets.iter().all(|target| target.operation.value.is_none()) {
            ReservationKind::Delete
        } else {
            ReservationKind::Write
        };
        let mut admitted = Admitted::all(targets)?;
        let reservation = self.wal.reserve(room, body.len())?;
        let Some(locked) = lock() else { return Ok(false) };
        let in_flight = self.wal.announce();
        let placed = self.wal.append(reservation, RecordKind::Batch, body, |_| ());
        let arrivals = arrive(targets);
        admitted.apply(placed.seq);
        drop(arrivals);
        drop(in_flight);
        drop(locked);
        targets.iter().for_each(|target| weigh(&self.wal, placed.end, target.space.id, target.operation));
        self.wal.commit(placed.end, durability)?;
        Ok(true)
    }

    fn commit_unlogged<'a>(
        &'a self,
        targets: &[TargetedOperation<'_>],
        lock: impl FnOnce() -> Option<StripeGuard<'a>>,
    ) -> Result<bool> {
        let mut admitted = Admitted::all(targets)?;
        let Some(_locked) = lock() else { return Ok(false) };
        let _arrivals = arrive(targets);
        admitted.apply(self.wal.tail());
        Ok(true)
    }
}

/// Applies the write throttle of each target keyspace, once per keyspace.
fn pace(targets: &[TargetedOperation<'_>]) -> Result<()> {
    if let [TargetedOperation { space, operation }] = targets {
        return space.engine().throttle(bytes(*operation), operation.value.is_some());
    }
    let mut spaces: Vec<(&KeyspaceState, usize, bool)> = Vec::new();
    for TargetedOperation { space, operation } in targets {
        match spaces.iter_mut().find(|(there, ..)| there.id == space.id) {
            Some((_, sum, adds)) => (*sum, *adds) = (*sum + bytes(*operation), *adds || operation.value.is_some()),
            None => spaces.push((space, bytes(*operation), operation.value.is_some())),
        }
    }
    spaces.into_iter().try_for_each(|(space, bytes, adds)| space.engine().throttle(bytes, adds))
}

fn bytes(operation: Operation<'_>) -> usize {
    operation.key.len() + operation.value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD
}

/// Tells the log the key and size of the operation at `at` or before.
pub(crate) fn weigh(wal: &Wal, at: Seq, keyspace: u32, operation: Operation<'_>) {
    wal.count_distinct(at, stripes::hash(keyspace, operation.key), bytes(operation));
}

fn encode(targets: &[TargetedOperation<'_>], body: &mut Vec<u8>) -> Result<()> {
    body.clear();
    let mut encoder = BatchEncoder::new(body, targets.len());
    for target in targets {
        encoder.push(target.space.id, target.operation.key, target.operation.value);
    }
    limits_check::at_most("the encoded length of a batch in bytes", limits::MAX_BATCH, body.len())
}

/// Admissions. Dropping them unapplied gives them back.
struct Admitted<'t, 'a> {
    targets: &'t [TargetedOperation<'a>],
    admissions: Admissions,
    _held: HeldRank,
}

/// Either one admission, which needs no allocation, or several.
enum Admissions {
    One(Option<Admission>),
    Many(Vec<Admission>),
}

impl<'t, 'a> Admitted<'t, 'a> {
    fn all(targets: &'t [TargetedOperation<'a>]) -> Result<Self> {
        let _held = lock_rank::hold(LockRank::Admission);
        if let [target] = targets {
            let admission = target.space.engine().admit(target.operation)?;
            return Ok(Admitted { targets, admissions: Admissions::One(Some(admission)), _held });
        }
        let mut admitted = Admitted { targets, admissions: Admissions::Many(Vec::with_capacity(targets.len())), _held };
        for target in targets {
            let admission = target.space.engine().admit(target.operation)?;
            admitted.admissions.push(admission);
        }
        Ok(admitted)
    }

    /// Applies the operations. Operation `i` has the sequence `first + i`.
    fn apply(&mut self, first: u64) {
        for ((target, admission), seq) in self.targets.iter().zip(self.admissions.take()).zip(first..) {
            target.space.engine().apply(admission, seq, target.operation);
        }
    }
}

impl Admissions {
    fn push(&mut self, admission: Admission) {
        match self {
            Admissions::One(one) => *one = Some(admission),
            Admissions::Many(many) => many.push(admission),
        }
    }

    fn take(&mut self) -> impl Iterator<Item = Admission> + use<> {
        let (one, many) = match self {
            Admissions::One(one) => (one.take(), Vec::new()),
            Admissions::Many(many) => (None, std::mem::take(many)),
        };
        one.into_iter().chain(many)
    }
}

impl Drop for Admitted<'_, '_> {
    fn drop(&mut self) {
        for (target, admission) in self.targets.iter().zip(self.admissions.take()) {
            target.space.engine().cancel(admission);
        }
    }
}
