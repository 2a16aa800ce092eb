//! The keyspaces of a database: lookup by name, creation and removal.

use std::{mem, sync::Arc};

use ecotone_engine::contract::{Context, EngineFactory, Shared};
use ecotone_substrate::{
    lock_rank::{self, LockRank},
    manifest::{KeyspaceRecord, Manifest},
};

use super::{
    files,
    keyspace_state::KeyspaceState,
    lazy::{LazyEngine, RecoveryPhase},
    limits_check,
    state::DatabaseState,
};
use crate::{Error, Result, config::CreateOptions, limits};

impl DatabaseState {
    /// The keyspace with this name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<KeyspaceState>> {
        self.check_open()?;
        let space = self.spaces.read().get(name).cloned();
        space.ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })
    }

    /// The keyspace with this name, created if there is none.
    pub(crate) fn open_or_create(&self, name: &str, creation: &CreateOptions) -> Result<Arc<KeyspaceState>> {
        match self.find(name) {
            Err(Error::UnknownKeyspace { .. }) => self.create(name, creation, true),
            Ok(space) if space.kind == creation.engine => {
                self.check_options(creation)?;
                space.check_logged(creation.logged).map(|()| space)
            }
            Ok(space) => {
                let (has, wants, open) = (space.kind, &creation.engine, space.opened_with());
                Err(Error::Invalid(format!(
                    "the keyspace {name:?} has the engine {has}, not {wants}; open it with {open}"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a keyspace. It is durable when the call returns. With `or_open`, a keyspace that exists is returned.
    pub(crate) fn create(&self, name: &str, creation: &CreateOptions, or_open: bool) -> Result<Arc<KeyspaceState>> {
        limits_check::name(name)?;
        self.check_writable()?;
        let mut manifest = self.manifest.lock();
        let _held = lock_rank::hold(LockRank::Manifest);
        if self.spaces.read().contains_key(name) {
            drop(manifest);
            let exists = || Err(Error::Invalid(format!("there is already a keyspace named {name:?}")));
            return if or_open { self.open_or_create(name, creation) } else { exists() };
        }
        if manifest.keyspaces.len() >= limits::MAX_KEYSPACES {
            let limit = limits::MAX_KEYSPACES as u64;
            return Err(Error::Limit { what: "the number of keyspaces", limit, actual: limit + 1 });
        }
        let space = Arc::new(self.create_state(&mut manifest, name, creation)?);
        self.spaces.write().insert(name.to_owned(), space.clone());
        Ok(space)
    }

    /// Drops a keyspace, durably, and removes its files.
    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let mut manifest = self.manifest.lock();
        let _held = lock_rank::hold(LockRank::Manifest);
        let space =
            self.spaces.read().get(name).cloned().ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })?;
        let mut next = manifest.next();
        next.keyspaces.retain(|record| record.id != space.id);
        self.store(&mut manifest, next)?;
        self.spaces.write().remove(name);
        space.engine().mark_dropped();
        space.gaps.retire();
        if space.lazy.is_unwritten() {
            return Ok(());
        }
        let removed = files::remove(&*self.storage, |file| file.keyspace() == Some(space.id));
        removed.map_err(|error| self.health.poison(error))
    }

    /// Creates an unwritten keyspace by one manifest that allocates its id and names it (memory-and-keyspaces.md,
    /// invariant 1).
    fn create_state(&self, manifest: &mut Manifest, name: &str, creation: &CreateOptions) -> Result<KeyspaceState> {
        let CreateOptions { logged, settings, .. } = creation;
        let family = self.check_options(creation)?;
        let id = manifest.next_keyspace;
        let limit = u64::from(u32::MAX);
        let above = Error::Limit { what: "the number of keyspaces ever made", limit, actual: limit + 1 };
        let next_keyspace = id.checked_add(1).ok_or(above)?;
        // A power failure may lose the tail of the log, whose positions are then given out again. So the keyspace
        // begins where replay does. The log has no records of its id.
        let position = manifest.replay;
        let record = KeyspaceRecord {
            id,
            name: name.to_owned(),
            engine: family.name().to_owned(),
            logged: *logged,
            unwritten: true,
            watermark: position,
            structure_position: position,
            blob: settings.encode(),
        };
        self.store_with(manifest, next_keyspace, record)?;
        let lazy =
            LazyEngine::unwritten(family.clone(), context(&self.shared, id, *logged, settings), RecoveryPhase::over());
        Ok(KeyspaceState::new(id, name, &**family, *logged, lazy, &self.gap_places))
    }

    /// Checks creation options, and returns the factory of their engine.
    fn check_options(&self, creation: &CreateOptions) -> Result<&Arc<dyn EngineFactory>> {
        let family = family(&self.families, &creation.engine)?;
        creation.settings.check()?;
        family.check(&creation.settings)?;
        Ok(family)
    }

    /// Stores the manifest with one more keyspace. The other records are not copied, since there may be many.
    fn store_with(&self, manifest: &mut Manifest, next_keyspace: u32, record: KeyspaceRecord) -> Result<()> {
        let keyspaces = mem::take(&mut manifest.keyspaces);
        let mut next = Manifest { next_keyspace, keyspaces, ..manifest.next() };
        next.keyspaces.push(record);
        match self.store_copies(&next) {
            Ok(()) => {
                *manifest = next;
                Ok(())
            }
            Err(error) => {
                next.keyspaces.pop();
                manifest.keyspaces = next.keyspaces;
                Err(error)
            }
        }
    }
}

/// The context of the engine of keyspace `id`.
pub(crate) fn context(shared: &Shared, id: u32, logged: bool, settings: &[(String, String)]) -> Context {
    Context { keyspace: id, logged, sub_engine: None, settings: settings.to_vec(), shared: shared.clone() }
}

/// The engine factory with this name.
pub(crate) fn family<'a>(families: &'a [Arc<dyn EngineFactory>], name: &str) -> Result<&'a Arc<dyn EngineFactory>> {
    let found = families.iter().find(|family| family.name() == name);
    found.ok_or_else(|| Error::Invalid(format!("this version of Ecotone has no engine named {name:?}")))
}
