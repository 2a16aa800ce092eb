//! Options of a database, and creation options of its keyspaces: the engine, its options, and whether writes are in the
//! log.
//!
//! Each engine has a type whose methods set its options ([`TreeOptions`], [`LsmOptions`], [`AdaptiveOptions`],
//! [`HashOptions`]). All of them collect [`Settings`], pairs of name and value. Settings are the stored form: the
//! manifest holds those of a keyspace until its first write. The engine parses the settings and checks the ranges, when
//! the keyspace is created and when its first write creates the files (`crates/tree/src/options.rs`, as in each
//! engine).

mod adaptive;
mod database;
mod hash;
mod keyspace;
mod lsm;
mod settings;
#[cfg(test)]
mod tests;
mod tree;

pub use self::{
    adaptive::AdaptiveOptions,
    hash::HashOptions,
    keyspace::{Engine, KeyspaceOptions},
    lsm::LsmOptions,
    tree::TreeOptions,
};
pub(crate) use self::{
    database::{DatabaseOptions, check_vacant},
    hash::HASH,
    keyspace::CreateOptions,
    settings::Settings,
};
