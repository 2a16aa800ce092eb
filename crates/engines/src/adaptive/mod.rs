//! The adaptive engine: an lsm, and pages of a tree below its tables where that pays (decisions 14 and 15, `docs/format/adaptive.md`). The one place where siblings
//! are imported.

mod blob;
mod family;
mod keyspace;
mod options;
mod pages;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use self::{family::AdaptiveFamily, options::AdaptiveOptions};
