//! A repair of a small database with edited files. The first byte says whether checksums are put right.
#![no_main]

use ecotone_fuzz::{Edit, repair};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&sealed, edits)) = input.split_first() else { return };
    repair(&Edit::list(edits), sealed % 2 == 1);
});
