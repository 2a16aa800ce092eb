//! Bad input: what a small database answers when its files are damaged, cut, missing, exchanged, or newer than the
//! program. The answer is right or an error; never a panic, never a wrong answer.

mod directory;
mod everything;
mod exercise;
mod files;
mod fill;
mod flips;
mod golden;
pub(crate) mod image;
mod judge;
mod life;
mod lives;
mod misplaced;
mod newer;
mod repair;
mod repair_hashed;
mod repair_tables;
mod repaired;
mod seal;
mod sealed;
mod strays;
mod units;

use crate::either;
