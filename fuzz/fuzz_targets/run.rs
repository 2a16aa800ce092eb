//! A block of a run with a right checksum, or a whole run (`ecotone_testkit::fuzz::run`). The first byte says which,
//! and for a run how many pages it has.
#![no_main]

use ecotone_fuzz::bounded;
use ecotone_testkit::fuzz::run::{BLOCK, block, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    if first == 0 {
        bounded(BLOCK, || block(rest))
    } else {
        run(first.into(), rest)
    };
});
