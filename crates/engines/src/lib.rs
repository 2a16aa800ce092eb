//! The engines of Ecotone behind one contract, [`engine::Engine`].

pub mod engine;
// Built step by step (decision 9, "Build plan"): its tests are its users until it has a family.
#[cfg(test)]
#[cfg_attr(feature = "loom", expect(dead_code, reason = "the models use a part of it"))]
mod hash;
pub mod merge;
pub mod tree;
