//! The adaptive engine: an lsm, and pages of a tree below its tables where that pays (decisions 14 and 15,
//! `docs/format/adaptive.md`). The one place where siblings are imported.

pub mod blob;
mod choice;
mod family;
mod heat;
mod hints;
mod insert;
mod keyspace;
mod options;
mod pages;
mod part;
mod policy;
mod price;
pub mod repair;
mod task;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
mod upkeep;

pub use self::{family::AdaptiveFamily, insert::Insert, options::AdaptiveOptions};
