//! The commands that work on one database, one file each.

pub(crate) mod compact;
pub(crate) mod delete;
pub(crate) mod drop;
pub(crate) mod dump;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod stats;
pub(crate) mod verify;
