//! The state of a keyspace in an open database, shared by all its handles.

use std::sync::Arc;

use ecotone_engine::contract::{AnyEngine, Engine, EngineFactory, Hashed, Maintained};

use super::{
    gaps::{GapSlots, Gaps},
    lazy::LazyEngine,
};
use crate::{Durability, Error, Result};

/// One keyspace inside an open database.
#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) logged: bool,
    pub(crate) lazy: Arc<LazyEngine>,
    /// The engine, as the trait of its kind.
    pub(crate) made: AnyEngine,
    /// Known ranges without records, for an ordered keyspace.
    pub(crate) gaps: Arc<Gaps>,
}

impl KeyspaceState {
    /// A keyspace with this engine, made by this factory.
    pub(crate) fn new(
        id: u32,
        name: &str,
        family: &dyn EngineFactory,
        logged: bool,
        lazy: LazyEngine,
        places: &Arc<GapSlots>,
    ) -> KeyspaceState {
        let lazy = Arc::new(lazy);
        let made = if family.is_ordered() { AnyEngine::Ordered(lazy.clone()) } else { AnyEngine::Hashed(lazy.clone()) };
        KeyspaceState {
            id,
            name: name.to_owned(),
            kind: family.name(),
            logged,
            lazy,
            made,
            gaps: Gaps::new(places.clone()),
        }
    }

    /// The engine, if it has work that may be done early or late.
    pub(crate) fn maintenance(&self) -> Option<&dyn Maintained> {
        self.engine().capabilities().maintenance
    }

    /// Garbage that a flush and a checkpoint would remove; 0 if it is little.
    pub(crate) fn reclaimable_deletes(&self) -> u64 {
        self.maintenance().map_or(0, Maintained::reclaimable_deletes)
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        self.made.engine()
    }

    /// The engine, if it makes writes atomic by itself, without stripes and log.
    pub(crate) fn latch_free(&self) -> Option<&Arc<dyn Hashed>> {
        match &self.made {
            AnyEngine::Hashed(engine) if !self.logged => Some(engine),
            _ => None,
        }
    }

    /// An error if the keyspace is logged and the caller asked for unlogged, or the reverse.
    pub(crate) fn check_logged(&self, logged: bool) -> Result<()> {
        if self.logged == logged {
            return Ok(());
        }
        let (name, opens) = (&self.name, self.opened_with());
        let (is, said) = if self.logged { ("logged", "`unlogged`") } else { ("unlogged", "without `unlogged`") };
        Err(Error::Invalid(format!(
            "the keyspace {name:?} is {is}, and it was asked for {said}; ask for it as it is, or open it with {opens}"
        )))
    }

    /// The durability of writes that do not choose one. An unlogged keyspace is always buffered, whatever the default
    /// of the database.
    pub(crate) fn default_durability(&self, of_database: Durability) -> Durability {
        if self.logged { of_database } else { Durability::Buffered }
    }

    /// An error if a write asks for durability that the keyspace cannot give.
    pub(crate) fn check_durability(&self, durability: Durability) -> Result<()> {
        if self.logged || durability != Durability::Sync {
            return Ok(());
        }
        let name = &self.name;
        Err(Error::Invalid(format!(
            "the keyspace {name:?} is unlogged, so no single write of it is durable when it returns; write with \
            Durability::Buffered, and call flush"
        )))
    }

    /// The name of the method that opens this kind.
    pub(crate) fn opened_with(&self) -> &'static str {
        match self.made {
            AnyEngine::Ordered(_) => "open_keyspace",
            AnyEngine::Hashed(_) => "open_hash_keyspace",
        }
    }

    /// The error for a caller that asks for the other kind.
    pub(crate) fn wrong_kind(&self) -> Error {
        let KeyspaceState { name, kind, made, .. } = self;
        let has = if matches!(made, AnyEngine::Ordered(_)) { "an order of keys" } else { "no order of keys" };
        Error::Invalid(format!(
            "the keyspace {name:?} has the engine {kind} and so {has}; open it with {}",
            self.opened_with()
        ))
    }
}
