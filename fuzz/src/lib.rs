//! What the fuzz targets share: a bound on memory, checksums put right, and small databases to damage.

#[path = "../../crates/ecotone/tests/it/either.rs"]
mod either;
#[path = "../../crates/ecotone/tests/it/damage/exercise.rs"]
mod exercise;
#[path = "../../crates/ecotone/tests/it/damage/fill.rs"]
mod fill;
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
#[path = "../../crates/ecotone/tests/it/damage/session.rs"]
mod session;
mod whole;

pub use memory::bounded;
pub use whole::{ENGINES, Edit, Input, damage, files, repair, seal_file};
