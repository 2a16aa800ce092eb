//! Options of a database, and creation options of its keyspaces: the engine, its options, and whether writes are in the
//! log.
//!
//! Each engine has a struct of its options, which the library re-exports (`crates/tree/src/options.rs`, as in each
//! engine). [`KeyspaceOptions`] and [`HashKeyspaceOptions`] hold them as [`Settings`], pairs of name and value: the
//! stored form. The manifest holds the settings of a keyspace until its first write. The engine parses the settings and
//! checks the ranges, when the keyspace is created and when its first write creates the files.

mod database;
mod hash_keyspace;
mod keyspace;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    database::{DatabaseOptions, check_vacant},
    hash_keyspace::HASH,
    keyspace::CreateOptions,
    settings::Settings,
};
pub use self::{
    hash_keyspace::HashKeyspaceOptions,
    keyspace::{Engine, KeyspaceOptions},
};
