//! The root and the structural records of an lsm keyspace (`ecotone_testkit::fuzz::structure`), and the input as one of either, or as covers.
#![no_main]

use ecotone_engines::lsm::{
    blob,
    structure::{Change, Covers},
};
use ecotone_fuzz::bounded;
use ecotone_substrate::codec::Reader;
use ecotone_testkit::fuzz::structure::history;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || (blob::decode(input).is_ok(), Change::decode(input).is_ok()));
    bounded(input.len(), || Covers::decode(&mut Reader::new(input)).is_ok());
    history(input);
});
