//! The engines of Ecotone behind one contract, [`engine::Engine`].

pub mod adaptive;
mod answers;
mod bulk;
mod delay;
pub mod engine;
mod files;
pub mod front;
pub mod hash;
pub mod idle;
mod lengths;
pub mod lsm;
pub mod merge;
mod page_cache;
pub mod repair;
mod rest;
#[cfg(test)]
mod tests;
pub mod tree;
mod turn;
