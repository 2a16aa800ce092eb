//! A small database with edited files. The first byte says which, and whether checksums are put right.
#![no_main]

use ecotone_fuzz::{Input, damage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| Input::parse(input).iter().for_each(damage));
