//! Lines that map keys to pages, and the fitters that find them (T8, T11). It does not know pages themselves.
//!
//! [`Line::page`] is the one evaluator: planning, writing and looking up all go through it, since the last bit of a
//! product decides where a record lies. A line works on offsets between [`digest()`]s of keys; a [`fence()`] turns a
//! digest back into the key at which a page begins.

mod digest;
mod fit;
mod greedy;
mod line;
mod optimal;
#[cfg(test)]
mod tests;

pub use digest::{DIGEST, digest, fence};
pub use fit::{Fit, Fitter};
pub use greedy::GreedyPlr;
pub use line::Line;
pub use optimal::OptimalPla;
