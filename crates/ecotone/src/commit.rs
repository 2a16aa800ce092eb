//! The commit path: admit, reserve, lock, append, apply, acknowledge (`docs/decisions/0001-contracts.md`, "Commit").

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use ecotone_engines::engine::{Admission, Operation};
use ecotone_substrate::{
    Seq,
    held::{self, Held, Kind},
    wal::{BatchEncoder, RecordKind, Room, Wal},
};

use crate::{
    Durability, Error, Result,
    database::Inner,
    gaps::Arrival,
    limits, limits_check,
    space::Space,
    stripes::{self, Locked},
};

/// Bytes that a thread keeps for the encoded record of its next write: more than any single one has, so that only
/// batches allocate.
const KEPT: usize = 4096;
/// Bytes that a record takes in a cache beyond key and value, as the log's weight counts them.
const RECORD_OVERHEAD: usize = 32;

ecotone_sys::primitive::thread_local! {
    /// The encoded record of this thread's write, so that a write allocates nothing.
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One operation of a commit and the keyspace it goes to.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) space: &'a Space,
    pub(crate) operation: Operation<'a>,
}

/// A batch without the deletes from keyspaces that have no record and get none by it.
fn without_vain<'a, 't>(targets: &'a [Target<'t>]) -> Cow<'a, [Target<'t>]> {
    if !targets.iter().any(Target::is_vain) {
        return Cow::Borrowed(targets);
    }
    let adds = |target: &&Target<'_>| target.operation.value.is_some();
    let growing: BTreeSet<u32> = targets.iter().filter(adds).map(|target| target.space.id).collect();
    targets.iter().copied().filter(|target| growing.contains(&target.space.id) || !target.is_vain()).collect()
}

impl Target<'_> {
    /// Whether it deletes from a keyspace that has no record. It must not make the files of that: there may be no space
    /// for them.
    #[inline]
    fn is_vain(&self) -> bool {
        self.operation.value.is_none() && self.space.lazy.is_unwritten()
    }
}

impl<'a> Target<'a> {
    /// Whether the gaps of its keyspace must be told that a record comes. Its stripe is locked.
    #[inline]
    fn is_noted(&self) -> bool {
        self.operation.value.is_some() && self.space.gaps.are_noted()
    }

    /// Tells them, for as long as the record is under way.
    #[inline]
    fn arrive(&self) -> Option<Arrival<'a>> {
        if self.is_noted() { self.space.gaps.arrive([self.operation.key].into_iter()) } else { None }
    }
}

/// The same for several, once for each keyspace.
fn arrive<'a>(targets: &[Target<'a>]) -> Vec<Arrival<'a>> {
    if let [target] = targets {
        return target.arrive().into_iter().collect();
    }
    let mut noted: BTreeMap<u32, Vec<&Target<'a>>> = BTreeMap::new();
    for target in targets.iter().filter(|target| target.is_noted()) {
        noted.entry(target.space.id).or_default().push(target);
    }
    let keys = |of: &[&Target<'a>]| of[0].space.gaps.arrive(of.iter().map(|target| target.operation.key));
    noted.values().filter_map(|of| keys(of)).collect()
}

impl Inner {
    /// Writes one operation.
    pub(crate) fn write(&self, target: Target<'_>, durability: Durability) -> Result<()> {
        if target.is_vain() {
            return self.check_vain(target, durability);
        }
        let stripe = self.stripes.of(target.space.id, target.operation.key);
        self.commit_one(target, durability, || Some(self.stripes.lock(stripe))).map(|_| ())
    }

    /// Writes one operation if the key's stripe is still at `version`; false if it has moved.
    pub(crate) fn write_if(&self, target: Target<'_>, version: u64, durability: Durability) -> Result<bool> {
        if target.is_vain() {
            return self.check_vain(target, durability).map(|()| true);
        }
        let stripe = self.stripes.of(target.space.id, target.operation.key);
        self.commit_one(target, durability, || self.stripes.lock_if(stripe, version))
    }

    /// Writes several operations as one: recovered whole or not at all.
    pub(crate) fn write_batch(&self, targets: &[Target<'_>], durability: Option<Durability>) -> Result<()> {
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
        let targets = &*without_vain(targets);
        if targets.is_empty() {
            return self.wal.commit(self.wal.tail(), durability);
        }
        if targets.iter().any(|target| target.space.latch_free().is_some()) {
            return self.write_singly(targets, durability);
        }
        pace(targets)?;
        self.patiently(|| self.write_together(targets, durability))
    }

    /// Does for an operation that changes nothing what any does: it is refused alike, and what was written before is as
    /// durable as was asked for.
    fn check_vain(&self, target: Target<'_>, durability: Durability) -> Result<()> {
        self.begin_writing()?;
        limits_check::operation(target.operation)?;
        target.space.check_durability(durability)?;
        self.wal.commit(self.wal.tail(), durability)
    }

    fn write_together(&self, targets: &[Target<'_>], durability: Durability) -> Result<()> {
        let _inside = self.batches.enter(&self.scheduler, targets.iter().map(|target| target.operation))?;
        let stripes = targets.iter().map(|target| self.stripes.of(target.space.id, target.operation.key)).collect();
        self.commit(targets, durability, || Some(self.stripes.lock_all(stripes))).map(|_| ())
    }

    /// Writes an unlogged batch of which an engine takes a part without stripes: that part is a row of single writes,
    /// after the others.
    fn write_singly(&self, targets: &[Target<'_>], durability: Durability) -> Result<()> {
        let others: Vec<Target<'_>> =
            targets.iter().copied().filter(|target| target.space.latch_free().is_none()).collect();
        pace(&others)?;
        self.patiently(|| self.write_together(&others, durability))?;
        let singles = targets.iter().filter_map(|target| Some((target.space.latch_free()?, target.operation)));
        singles.into_iter().try_for_each(|(engine, operation)| self.patiently(|| engine.put(operation)))
    }

    /// Writes one operation. What the log need not have may replace a record that is not written out yet: that takes no
    /// admission. An engine that orders the writes of a key by itself takes no stripe either.
    fn commit_one<'a>(
        &'a self,
        target: Target<'_>,
        durability: Durability,
        lock: impl Fn() -> Option<Locked<'a>>,
    ) -> Result<bool> {
        self.begin_writing()?;
        limits_check::operation(target.operation)?;
        target.space.check_durability(durability)?;
        if let Some(engine) = target.space.latch_free() {
            return self.patiently(|| engine.put(target.operation)).map(|()| true);
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
        self.patiently(|| self.commit(&[target], durability, &lock))
    }

    /// The path itself. `lock` takes the stripes, or refuses because one has moved; then nothing is written and the
    /// answer is false.
    fn commit<'a>(
        &'a self,
        targets: &[Target<'_>],
        durability: Durability,
        lock: impl FnOnce() -> Option<Locked<'a>>,
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
        targets: &[Target<'_>],
        durability: Durability,
        lock: impl FnOnce() -> Option<Locked<'a>>,
        body: &mut Vec<u8>,
    ) -> Result<bool> {
        encode(targets, body)?;
        let room =
            if targets.iter().all(|target| target.operation.value.is_none()) { Room::Delete } else { Room::Write };
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
        targets: &[Target<'_>],
        lock: impl FnOnce() -> Option<Locked<'a>>,
    ) -> Result<bool> {
        let mut admitted = Admitted::all(targets)?;
        let Some(_locked) = lock() else { return Ok(false) };
        let _arrivals = arrive(targets);
        admitted.apply(self.wal.tail());
        Ok(true)
    }
}

/// Delays a write or a batch where its keyspaces are behind, once for each of them.
fn pace(targets: &[Target<'_>]) -> Result<()> {
    if let [Target { space, operation }] = targets {
        return space.engine().pace(bytes(*operation), operation.value.is_some());
    }
    let mut spaces: Vec<(&Space, usize, bool)> = Vec::new();
    for Target { space, operation } in targets {
        match spaces.iter_mut().find(|(there, ..)| there.id == space.id) {
            Some((_, sum, adds)) => (*sum, *adds) = (*sum + bytes(*operation), *adds || operation.value.is_some()),
            None => spaces.push((space, bytes(*operation), operation.value.is_some())),
        }
    }
    spaces.into_iter().try_for_each(|(space, bytes, adds)| space.engine().pace(bytes, adds))
}

fn bytes(operation: Operation<'_>) -> usize {
    operation.key.len() + operation.value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD
}

/// Tells the log which record an operation at or before `at` has.
pub(crate) fn weigh(wal: &Wal, at: Seq, keyspace: u32, operation: Operation<'_>) {
    wal.weigh(at, stripes::hash(keyspace, operation.key), bytes(operation));
}

fn encode(targets: &[Target<'_>], body: &mut Vec<u8>) -> Result<()> {
    body.clear();
    let mut encoder = BatchEncoder::new(body, targets.len());
    for target in targets {
        encoder.push(target.space.id, target.operation.key, target.operation.value);
    }
    if body.len() > limits::MAX_BATCH {
        let (limit, actual) = (limits::MAX_BATCH as u64, body.len() as u64);
        return Err(Error::Limit { what: "the encoded length of a batch in bytes", limit, actual });
    }
    Ok(())
}

/// Admissions that are given back unless they are applied.
struct Admitted<'t, 'a> {
    targets: &'t [Target<'a>],
    admissions: Admissions,
    _held: Held,
}

/// One admission needs no allocation.
enum Admissions {
    One(Option<Admission>),
    Many(Vec<Admission>),
}

impl<'t, 'a> Admitted<'t, 'a> {
    fn all(targets: &'t [Target<'a>]) -> Result<Self> {
        let _held = held::hold(Kind::Admission);
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

    /// Applies the operations; the i-th has the sequence `first + i`.
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
