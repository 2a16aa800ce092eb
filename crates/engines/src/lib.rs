//! The engines of Ecotone behind one contract, [`engine::Engine`].

pub mod engine;
pub mod hash;
pub mod lsm;
pub mod merge;
pub mod tree;
