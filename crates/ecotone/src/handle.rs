//! The generic handle: everything that ordered and hashed keyspaces have in common. [`Keyspace`](crate::Keyspace) and
//! [`HashKeyspace`](crate::HashKeyspace) each wrap one, and add the calls and the documentation of their kind. Atomic
//! updates are in `update.rs`.

use std::{fmt, mem, sync::Arc};

use ecotone_engine::contract::{Capabilities, Engine, Get, Operation};
use ecotone_substrate::lock_rank::{self, Wait};

use crate::{
    Durability, Error, KeyspaceStats, Result,
    core::{KeyspaceState, OpenDatabase, commit::TargetedOperation, limits_check},
    stats,
};

/// A keyspace of an open database, with its engine as the trait of its kind.
pub(crate) struct KeyspaceHandle<E: ?Sized> {
    pub(crate) database: OpenDatabase,
    pub(crate) space: Arc<KeyspaceState>,
    pub(crate) engine: Arc<E>,
    pub(crate) durability: Durability,
}

impl<E: ?Sized> Clone for KeyspaceHandle<E> {
    fn clone(&self) -> Self {
        let (database, space, engine) = (self.database.clone(), self.space.clone(), self.engine.clone());
        KeyspaceHandle { database, space, engine, durability: self.durability }
    }
}

impl<E: ?Sized> Drop for KeyspaceHandle<E> {
    fn drop(&mut self) {
        if self.database.life.is_over() {
            // A forked child process drops nothing.
            mem::forget((self.space.clone(), self.engine.clone()));
        }
    }
}

impl<E: Engine + ?Sized> KeyspaceHandle<E> {
    pub(crate) fn new(database: OpenDatabase, space: Arc<KeyspaceState>, engine: Arc<E>) -> Self {
        let durability = space.default_durability(database.durability);
        KeyspaceHandle { database, space, engine, durability }
    }

    pub(crate) fn durability(&self, durability: Durability) -> Self {
        let mut handle = self.clone();
        handle.durability = durability;
        handle
    }

    pub(crate) fn name(&self) -> &str {
        &self.space.name
    }

    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Some(value))
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<()> {
        self.write(key, None)
    }

    pub(crate) fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.readable(key)?;
        self.database.retry_without_memory(|| self.engine.get(key))
    }

    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.readable(key)?;
        self.database.retry_without_memory(|| self.engine.get_into(key, value))
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut values = vec![None; keys.len()];
        self.multi_get_with(&keys, |number, value| values[number] = value.map(<[u8]>::to_vec))?;
        Ok(values)
    }

    pub(crate) fn multi_get_with(&self, keys: &[&[u8]], mut found: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.database.check_open()?;
        keys.iter().try_for_each(|key| limits_check::key(key))?;
        let mut is_found = vec![false; keys.len()];
        let looked = self.engine.multi_get(keys, &mut |number, value| {
            is_found[number] = true;
            lock_rank::about_to_wait(Wait::Caller);
            found(number, value);
        });
        match looked {
            Err(Error::Memory { .. }) => {
                self.database.retry_without_memory(|| self.find_the_rest(keys, &mut is_found, &mut found))
            }
            looked => looked,
        }
    }

    /// Looks up the keys that are not found yet.
    #[cold]
    fn find_the_rest(
        &self,
        keys: &[&[u8]],
        is_found: &mut [bool],
        found: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let numbers: Vec<usize> = (0..keys.len()).filter(|number| !is_found[*number]).collect();
        let rest: Vec<&[u8]> = numbers.iter().map(|number| keys[*number]).collect();
        self.engine.multi_get(&rest, &mut |place, value| {
            is_found[numbers[place]] = true;
            found(numbers[place], value);
        })
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.database.check_open()?;
        self.database.write(self.target(key, value), self.durability)
    }

    /// Writes if the key's stripe still has `version`, so that no other write came between.
    pub(crate) fn write_if(&self, key: &[u8], value: Option<&[u8]>, version: u64) -> Result<bool> {
        self.database.check_open()?;
        self.database.write_if(self.target(key, value), version, self.durability)
    }

    /// What the engine can do beyond the contract. Opens it, unless nothing was written yet.
    pub(crate) fn capabilities(&self) -> Result<Capabilities<'_>> {
        self.space.lazy.look()?;
        Ok(self.space.engine().capabilities())
    }

    pub(crate) fn stats(&self) -> KeyspaceStats {
        // A keyspace that cannot be opened, or whose database is over, has no counters. Reads report the error.
        match self.database.check_open().and_then(|()| self.space.lazy.look()) {
            Ok(_) => stats::keyspace(&self.space),
            Err(_) => KeyspaceStats::of(&self.space, Vec::new()),
        }
    }

    pub(crate) fn readable(&self, key: &[u8]) -> Result<()> {
        limits_check::key(key)?;
        self.database.check_open()
    }

    pub(crate) fn debug(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(what).field("name", &self.space.name).field("engine", &self.space.kind).finish_non_exhaustive()
    }

    fn target<'a>(&'a self, key: &'a [u8], value: Option<&'a [u8]>) -> TargetedOperation<'a> {
        TargetedOperation { space: &self.space, operation: Operation { key, value } }
    }
}
