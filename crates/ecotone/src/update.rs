//! Atomic read-modify-write of a record.
//!
//! An update reads the record and writes it if no other write of the key came between. The version of the key's stripe
//! proves that (commit-and-recovery.md, "Commit path"). Other keys share the stripe, so a changed version only means
//! that the key is read again. If the value is still the one that the closure got, its result is written without a
//! second run. The engine of an unlogged hashed keyspace does all this by itself, without stripes (hash-protocol.md,
//! "Operations").

use ecotone_engine::{
    contract::{Access, Engine, Hashed, Operation, UpdateAction},
    merge::Merge,
};
use ecotone_substrate::lock_rank::{self, Wait};

use crate::{Error, Result, core::limits_check, handle::KeyspaceHandle};

/// The most runs of one update's closure. After so many, each overtaken by another write of the key, the update fails.
/// Other threads cannot overtake it so often. A closure that writes another value to the key in each run would do so
/// forever.
const MOST_RUNS: u32 = 100_000;

/// The outcome of [`Keyspace::compare_and_swap`](crate::Keyspace::compare_and_swap) and
/// [`HashKeyspace::compare_and_swap`](crate::HashKeyspace::compare_and_swap).
///
/// # Examples
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
/// # let locks = database.hash_keyspace("locks", ecotone::HashOptions::default())?;
/// use ecotone::Swap;
/// match locks.compare_and_swap("printer", None, Some(b"ada"))? {
///     Swap::Done => println!("ada has the printer"),
///     Swap::Mismatch(other) => println!("{other:?} has it"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the value may have been another: then nothing was written"]
pub enum Swap {
    /// The value was as expected and was replaced.
    Done,
    /// The value was another, given here. Nothing was written.
    Mismatch(Option<Vec<u8>>),
}

/// The new state of a record.
enum Next {
    Keep,
    Replace(Option<Vec<u8>>),
}

/// A record before an update and after it.
struct Updated {
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

impl<E: Engine + ?Sized> KeyspaceHandle<E> {
    pub(crate) fn fetch_update(
        &self,
        key: &[u8],
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.update(key, |before| Ok(Next::Replace(update(before))))?.before)
    }

    pub(crate) fn update_fetch(
        &self,
        key: &[u8],
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.update(key, |before| Ok(Next::Replace(update(before))))?.after)
    }

    pub(crate) fn compare_and_swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        limits_check::operation(Operation { key, value: new })?;
        let mut done = false;
        let updated = self.update(key, |before| {
            done = before == expected;
            Ok(if done { Next::Replace(new.map(<[u8]>::to_vec)) } else { Next::Keep })
        })?;
        Ok(if done { Swap::Done } else { Swap::Mismatch(updated.before) })
    }

    pub(crate) fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        if let Some(engine) = self.space.latch_free() {
            self.readable(key)?;
            return self.database.write_in_engine(&self.space, self.durability, || engine.merge(key, merge));
        }
        let merged = |before: Option<&[u8]>| {
            let mut after = Vec::new();
            merge.apply(before, &mut after)?;
            Ok(Next::Replace(Some(after)))
        };
        self.update(key, merged).map(drop)
    }

    /// Replaces a value by the result of `update`. If `update` fails, nothing is written and its error is returned.
    fn update(&self, key: &[u8], mut update: impl FnMut(Option<&[u8]>) -> Result<Next>) -> Result<Updated> {
        limits_check::key(key)?;
        let mut runs = 0;
        let update = |before: Option<&[u8]>| {
            runs += 1;
            lock_rank::about_to_wait(Wait::Caller);
            if runs <= MOST_RUNS { update(before) } else { Err(overtaken()) }
        };
        match self.space.latch_free() {
            Some(engine) => self.update_in_engine(&**engine, key, update),
            None => self.update_by_version(key, update),
        }
    }

    fn update_by_version(&self, key: &[u8], mut update: impl FnMut(Option<&[u8]>) -> Result<Next>) -> Result<Updated> {
        let stripes = &self.database.stripes;
        let stripe = stripes.of(self.space.id, key);
        let mut last: Option<Updated> = None;
        loop {
            let version = stripes.version(stripe);
            self.readable(key)?;
            let before = self.database.retry_without_memory(|| {
                let mut value = Vec::new();
                Ok(self.engine.read_into(key, Access::Update, &mut value)?.then_some(value))
            })?;
            let updated = match last.filter(|last| last.before == before) {
                Some(last) => last,
                None => match update(before.as_deref())? {
                    Next::Replace(after) if before.is_some() || after.is_some() => Updated { before, after },
                    Next::Replace(_) | Next::Keep => return Ok(Updated { after: before.clone(), before }),
                },
            };
            if self.write_if(key, updated.after.as_deref(), version)? {
                return Ok(updated);
            }
            last = Some(updated);
        }
    }

    fn update_in_engine(
        &self,
        engine: &dyn Hashed,
        key: &[u8],
        mut update: impl FnMut(Option<&[u8]>) -> Result<Next>,
    ) -> Result<Updated> {
        let mut last: Option<(Updated, UpdateAction)> = None;
        self.modify(engine, key, |before, after| {
            // A write of another key, or a shortage of memory, makes the engine ask again.
            if let Some((updated, outcome)) = last.as_ref().filter(|(updated, _)| updated.before.as_deref() == before) {
                after.extend_from_slice(
                    updated.after.as_deref().filter(|_| *outcome == UpdateAction::Store).unwrap_or_default(),
                );
                return Ok(*outcome);
            }
            let mut updated = Updated { before: before.map(<[u8]>::to_vec), after: None };
            let (next, outcome) = match update(before)? {
                Next::Replace(Some(value)) => {
                    after.extend_from_slice(&value);
                    (Some(value), UpdateAction::Store)
                }
                Next::Replace(None) if before.is_some() => (None, UpdateAction::Delete),
                Next::Replace(None) | Next::Keep => (updated.before.clone(), UpdateAction::Keep),
            };
            updated.after = next;
            last = Some((updated, outcome));
            Ok(outcome)
        })?;
        Ok(last.map_or(Updated { before: None, after: None }, |(updated, _)| updated))
    }

    /// Lets the engine modify a record. If `change` fails, nothing is written and its error is returned.
    fn modify(
        &self,
        engine: &dyn Hashed,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<UpdateAction>,
    ) -> Result<()> {
        self.readable(key)?;
        let mut refused = None;
        let mut changed = |before: Option<&[u8]>, after: &mut Vec<u8>| {
            let outcome = change(before, after).and_then(|outcome| {
                let value = (outcome == UpdateAction::Store).then_some(after.as_slice());
                limits_check::operation(Operation { key, value }).map(|()| outcome)
            });
            refused = None;
            outcome.unwrap_or_else(|error| {
                refused = Some(error);
                UpdateAction::Keep
            })
        };
        self.database.write_in_engine(&self.space, self.durability, || engine.modify(key, &mut changed))?;
        refused.map_or(Ok(()), Err)
    }
}

fn overtaken() -> Error {
    let what =
        "an update was overtaken by other writes of its key in each of its runs; does its closure write the key?";
    Error::Invalid(format!("{what} (after {MOST_RUNS} runs)"))
}
