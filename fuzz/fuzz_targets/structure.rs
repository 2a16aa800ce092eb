//! The root and the structural records of an lsm keyspace (`ecotone_testkit::fuzz::structure`), and the input as one of either.
#![no_main]

use ecotone_engines::lsm::{blob, structure::Change};
use ecotone_fuzz::bounded;
use ecotone_testkit::fuzz::structure::history;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || (blob::decode(input).is_ok(), Change::decode(input).is_ok()));
    history(input);
});
