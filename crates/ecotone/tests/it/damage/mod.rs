//! Bad input: a small database whose files are damaged, cut, missing, exchanged, or newer than the program. Every
//! answer is right or an error; never a panic, never a wrong answer.

mod directory;
mod everything;
mod exercise;
mod files;
mod fill;
mod flips;
mod golden;
pub(crate) mod image;
mod judge;
mod misplaced;
mod newer;
mod orphans;
mod repair;
mod repair_hashed;
mod repair_tables;
mod repaired;
mod seal;
mod sealed;
mod session;
mod sessions;
mod units;

use crate::either;
