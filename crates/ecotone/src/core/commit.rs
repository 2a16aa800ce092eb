//! The commit of all writes: check, throttle, admit, reserve, lock, append, apply, acknowledge (commit-and-recovery.md,
//! "Commit path").
//!
//! A keyspace skips the steps that it does not need:
//!
//! - An unlogged keyspace has nothing to reserve, to append and to acknowledge.
//! - A single write to an unlogged keyspace is applied without throttle and admission if the engine can. It may still
//!   fail then, since the log has no record of it.
//! - An unlogged hashed keyspace applies every write so. Its engine orders the writes of a key by itself, so its keys
//!   have no stripes.

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
const KEPT_BUFFER_BYTES: usize = 4096;
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
        let has_stripe = target.space.latch_free().is_none();
        let stripe = has_stripe.then(|| self.stripes.of(target.space.id, target.operation.key));
        let lock = || Some(stripe.map_or_else(StripeGuard::of_none, |stripe| self.stripes.lock(stripe)));
        self.commit_one(target, durability, lock).map(|_| ())
    }

    /// Writes one operation if the key's stripe still has `version`. False if the version has changed.
    pub(crate) fn write_if(&self, target: TargetedOperation<'_>, version: u64, durability: Durability) -> Result<bool> {
        let stripe = self.stripes.of(target.space.id, target.operation.key);
        self.commit_one(target, durability, || self.stripes.lock_if(stripe, version))
    }

    /// The commit of an update by an engine that orders the writes of a key by itself. `change` is the engine's call,
    /// which throttles, reads and applies.
    pub(crate) fn write_in_engine(
        &self,
        space: &KeyspaceState,
        durability: Durability,
        change: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.begin_writing_to(space, durability)?;
        self.retry_without_memory(change)
    }

    /// Writes several operations as one: they are recovered whole or not at all.
    pub(crate) fn write_batch(&self, targets: &[TargetedOperation<'_>], durability: Durability) -> Result<()> {
        let Some(first) = targets.first() else { return Ok(()) };
        if targets.iter().any(|target| target.space.logged != first.space.logged) {
            return Err(Error::Invalid(
                "a batch cannot mix logged and unlogged keyspaces; commit one batch for each".into(),
            ));
        }
        self.begin_writing_to(first.space, durability)?;
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

    fn write_together(&self, targets: &[TargetedOperation<'_>], durability: Durability) -> Result<()> {
        let _inside = self.batches.enter(&self.scheduler, targets.iter().map(|target| target.operation))?;
        let stripes = targets.iter().map(|target| self.stripes.of(target.space.id, target.operation.key)).collect();
        self.commit(targets, durability, || Some(self.stripes.lock_all(stripes))).map(|_| ())
    }

    /// Writes an unlogged batch that includes an engine without stripes. The writes to that engine are committed one by
    /// one, after the others.
    fn write_singly(&self, targets: &[TargetedOperation<'_>], durability: Durability) -> Result<()> {
        let (singles, others): (Vec<_>, Vec<_>) =
            targets.iter().copied().partition(|target| target.space.latch_free().is_some());
        pace(&others)?;
        self.retry_without_memory(|| self.write_together(&others, durability))?;
        singles.into_iter().try_for_each(|target| self.write(target, durability))
    }

    /// Checks that this keyspace may be written to with this durability.
    fn begin_writing_to(&self, space: &KeyspaceState, durability: Durability) -> Result<()> {
        space.check_durability(durability)?;
        self.begin_writing()
    }

    /// The commit of one operation. `lock` locks the stripe, or refuses because its version has changed. Then nothing
    /// is written and the result is false.
    fn commit_one<'a>(
        &'a self,
        target: TargetedOperation<'_>,
        durability: Durability,
        lock: impl Fn() -> Option<StripeGuard<'a>>,
    ) -> Result<bool> {
        self.begin_writing_to(target.space, durability)?;
        limits_check::operation(target.operation)?;
        if target.is_noop() {
            // Earlier writes become as durable as the call asks for.
            return self.wal.commit(self.wal.tail(), durability).map(|()| true);
        }
        if !target.space.logged
            && let Some(written) = self.retry_without_memory(|| try_apply(target, &lock))?
        {
            return Ok(written);
        }
        pace(&[target])?;
        self.retry_without_memory(|| self.commit(&[target], durability, &lock))
    }

    /// The commit of operations that are checked and throttled. `lock` is as for [`commit_one`](Self::commit_one).
    fn commit<'a>(
        &'a self,
        targets: &[TargetedOperation<'_>],
        durability: Durability,
        lock: impl FnOnce() -> Option<StripeGuard<'a>>,
    ) -> Result<bool> {
        ENCODED.with(|encoded| {
            let body = &mut *encoded.borrow_mut();
            let committed = self.commit_encoded(targets, durability, lock, body);
            if body.capacity() > KEPT_BUFFER_BYTES {
                *body = Vec::new();
            }
            committed
        })
    }

    fn commit_encoded<'a>(
        &'a self,
        targets: &[TargetedOperation<'_>],
        durability: Durability,
        lock: impl FnOnce() -> Option<StripeGuard<'a>>,
        body: &mut Vec<u8>,
    ) -> Result<bool> {
        let log = targets.iter().any(|target| target.space.logged).then_some(&*self.wal);
        if log.is_some() {
            encode(targets, body)?;
        }
        let admitted = Admitted::all(targets)?;
        let reservation = log.map(|wal| wal.reserve(reservation_kind(targets), body.len())).transpose()?;
        let Some(locked) = lock() else { return Ok(false) };
        let in_flight = log.map(Wal::announce);
        let placed = log.zip(reservation).map(|(wal, space)| wal.append(space, RecordKind::Batch, body, |_| ()));
        let arrivals = arrive(targets);
        admitted.apply(placed.as_ref().map_or_else(|| self.wal.tail(), |placed| placed.seq));
        drop(arrivals);
        drop(in_flight);
        drop(locked);
        let Some(placed) = placed else { return Ok(true) };
        targets.iter().for_each(|target| weigh(&self.wal, placed.end, target.space.id, target.operation));
        self.wal.commit(placed.end, durability).map(|()| true)
    }
}

/// Applies an unlogged operation without admission, if the engine can. `None` if the operation needs one, false if
/// `lock` refuses.
fn try_apply<'a>(target: TargetedOperation<'_>, lock: impl Fn() -> Option<StripeGuard<'a>>) -> Result<Option<bool>> {
    target.space.lazy.open_for_write()?;
    let Some(locked) = lock() else { return Ok(Some(false)) };
    let arrival = target.arrive();
    let applied = target.space.engine().try_apply(target.operation);
    if matches!(applied, Ok(true)) {
        return Ok(Some(true));
    }
    drop(arrival);
    locked.unchanged();
    debug_assert!(applied.is_err() || target.space.latch_free().is_none(), "it applies every write so");
    applied.map(|_| None)
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

/// Deletes alone may use log space that is held back for them.
fn reservation_kind(targets: &[TargetedOperation<'_>]) -> ReservationKind {
    let only_deletes = targets.iter().all(|target| target.operation.value.is_none());
    if only_deletes { ReservationKind::Delete } else { ReservationKind::Write }
}

fn encode(targets: &[TargetedOperation<'_>], body: &mut Vec<u8>) -> Result<()> {
    body.clear();
    let mut encoder = BatchEncoder::new(body, targets.len());
    for target in targets {
        encoder.push(target.space.id, target.operation.key, target.operation.value);
    }
    limits_check::at_most("the encoded length of a batch in bytes", limits::MAX_BATCH, body.len())
}

/// The admissions of some operations.
struct Admitted<'t, 'a> {
    targets: &'t [TargetedOperation<'a>],
    admissions: Admissions<'t>,
    _held: HeldRank,
}

/// Either one admission, which needs no allocation, or several.
enum Admissions<'t> {
    One(Admission<'t>),
    Many(Vec<Admission<'t>>),
}

impl<'t, 'a> Admitted<'t, 'a> {
    fn all(targets: &'t [TargetedOperation<'a>]) -> Result<Self> {
        let _held = lock_rank::hold(LockRank::Admission);
        let admit = |target: &'t TargetedOperation<'a>| target.space.engine().admit(target.operation);
        let admissions = match targets {
            [target] => Admissions::One(admit(target)?),
            targets => Admissions::Many(targets.iter().map(admit).collect::<Result<_>>()?),
        };
        Ok(Admitted { targets, admissions, _held })
    }

    /// Applies the operations. Operation `i` has the sequence `first + i`.
    fn apply(self, first: u64) {
        let (one, many) = match self.admissions {
            Admissions::One(one) => (Some(one), Vec::new()),
            Admissions::Many(many) => (None, many),
        };
        for ((target, admission), seq) in self.targets.iter().zip(one.into_iter().chain(many)).zip(first..) {
            target.space.engine().apply(admission, seq, target.operation);
        }
    }
}
