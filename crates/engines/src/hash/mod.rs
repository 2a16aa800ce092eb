//! The hash engine: a hot log, the index over it, copies of what is read often, and runs in hash order (decisions 9 and 10, `docs/format/hash.md`).

mod append;
mod index;
mod log;
