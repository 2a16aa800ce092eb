//! A keyspace inside of an open database, behind all its handles.

use std::sync::Arc;

use ecotone_engines::engine::{Engine, Hashed, Made};

use crate::Error;

/// One keyspace inside an open database.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) logged: bool,
    pub(crate) made: Made,
}

impl Space {
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
        Error::Invalid(format!("the keyspace {name:?} has the engine {kind} and so {has}; open it with {}", self.opened_with()))
    }
}
