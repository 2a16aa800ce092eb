//! The hash engine: a hot log, the index over it, copies of what is read often, and runs in hash order (decisions 9 and 10, `docs/format/hash.md`).

#![cfg_attr(all(test, feature = "loom"), expect(dead_code, reason = "the models use a part of it"))]

// Built step by step (decision 9, "Build plan"): its tests are its users until it has a family.
#[cfg(test)]
mod append;
pub mod cold;
#[cfg(test)]
mod index;
#[cfg(test)]
mod log;
