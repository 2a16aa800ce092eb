//! A keyspace inside of an open database, behind all its handles.

use std::sync::Arc;

use ecotone_engines::engine::{Engine, Family, Hashed, Made};

use crate::{
    Durability, Error, Result,
    gaps::{Gaps, Places},
    lazy::Lazy,
};

/// One keyspace inside an open database.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) logged: bool,
    pub(crate) lazy: Arc<Lazy>,
    /// The same, as one that does what its kind does.
    pub(crate) made: Made,
    /// Where an ordered one has no records.
    pub(crate) gaps: Arc<Gaps>,
}

impl Space {
    /// A keyspace with this engine, of this family.
    pub(crate) fn new(
        id: u32,
        name: &str,
        family: &dyn Family,
        logged: bool,
        lazy: Lazy,
        places: &Arc<Places>,
    ) -> Space {
        let lazy = Arc::new(lazy);
        let made = if family.is_ordered() { Made::Ordered(lazy.clone()) } else { Made::Hashed(lazy.clone()) };
        Space { id, name: name.to_owned(), kind: family.name(), logged, lazy, made, gaps: Gaps::new(places.clone()) }
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        self.made.engine()
    }

    /// The engine, if it makes writes whole by itself, without stripes and log.
    pub(crate) fn latch_free(&self) -> Option<&Arc<dyn Hashed>> {
        match &self.made {
            Made::Hashed(engine) if !self.logged => Some(engine),
            _ => None,
        }
    }

    /// An error unless it is made as was asked for.
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

    /// The durability of writes that do not say otherwise, in a database with this one. Who makes a keyspace unlogged
    /// has said what is kept of it.
    pub(crate) fn default_durability(&self, of_database: Durability) -> Durability {
        if self.logged { of_database } else { Durability::Buffered }
    }

    /// An error if a write is to be durable before it is acknowledged, and nothing is there to make it so.
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

    /// What opens it.
    pub(crate) fn opened_with(&self) -> &'static str {
        match self.made {
            Made::Ordered(_) => "open_keyspace",
            Made::Hashed(_) => "open_hash_keyspace",
        }
    }

    /// What is said to whoever asks for the other kind.
    pub(crate) fn wrong_kind(&self) -> Error {
        let Space { name, kind, made, .. } = self;
        let has = if matches!(made, Made::Ordered(_)) { "an order of keys" } else { "no order of keys" };
        Error::Invalid(format!(
            "the keyspace {name:?} has the engine {kind} and so {has}; open it with {}",
            self.opened_with()
        ))
    }
}
