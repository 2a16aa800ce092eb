//! The engines of Ecotone behind one contract, [`engine::Engine`].

mod delay;
pub mod engine;
pub mod hash;
pub mod lsm;
pub mod merge;
#[cfg(test)]
mod tests;
pub mod tree;
