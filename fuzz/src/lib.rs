//! What the fuzz targets share: a bound on memory, checksums put right, and a small database to damage.

#[path = "../../crates/ecotone/tests/it/either.rs"]
mod either;
#[path = "../../crates/ecotone/tests/it/damage/exercise.rs"]
mod exercise;
#[allow(dead_code, reason = "the damage tests use all of it")]
#[path = "../../crates/ecotone/tests/it/damage/image.rs"]
mod image;
#[path = "../../crates/ecotone/tests/it/damage/judge.rs"]
mod judge;
mod memory;
#[allow(dead_code, reason = "the damage tests use all of it")]
#[path = "../../crates/ecotone/tests/it/damage/repaired.rs"]
mod repaired;
#[path = "../../crates/ecotone/tests/it/damage/seal.rs"]
mod seal;
mod whole;

pub use memory::bounded;
pub use whole::{Edit, damage, files, repair, seal_file};
