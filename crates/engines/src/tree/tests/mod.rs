//! Trees whose records come from elsewhere, as the adaptive engine's do.

mod absorb;
mod arrivals;
mod carve;
mod fill;
mod lines;
mod world;
