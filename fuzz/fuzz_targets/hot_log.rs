//! A page of a hot log with a right checksum, or a whole segment (`ecotone_testkit::fuzz::hot_log`). The first byte
//! says which, and for a segment how many pages it has.
#![no_main]

use ecotone_fuzz::bounded;
use ecotone_substrate::limits::PAGE;
use ecotone_testkit::fuzz::hot_log::{page, segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    if first == 0 {
        bounded(PAGE, || page(rest))
    } else {
        segment(first.into(), rest).is_some()
    };
});
