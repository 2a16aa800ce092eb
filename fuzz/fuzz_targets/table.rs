//! A block of a table with a right checksum, or a whole table (`ecotone_testkit::fuzz::table`). The first byte says
//! which, and for a table how many pages it has.
#![no_main]

use ecotone_fuzz::bounded;
use ecotone_testkit::fuzz::table::{block, table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    if first == 0 {
        bounded(4096, || block(rest))
    } else {
        table(first.into(), rest)
    };
});
