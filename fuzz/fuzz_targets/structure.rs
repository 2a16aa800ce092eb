//! The root and the structural records of an lsm, an adaptive or a hash keyspace (`ecotone_testkit::fuzz::structure`),
//! and the input as one of them, or as paged ranges.
#![no_main]

use ecotone_fuzz::bounded;
use ecotone_substrate::codec::Reader;
use ecotone_testkit::fuzz::structure;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || {
        (ecotone_lsm::blob::decode(input).is_ok(), ecotone_lsm::manifest::VersionEdit::decode(input).is_ok())
    });
    bounded(input.len(), || ecotone_lsm::manifest::PagedRanges::decode(&mut Reader::new(input)).is_ok());
    bounded(input.len(), || ecotone_adaptive::blob::Blob::decode(input).is_ok());
    bounded(input.len(), || {
        (ecotone_hash::blob::decode(input).is_ok(), ecotone_hash::structure::ManifestEdit::decode(input).is_ok())
    });
    structure::lsm::history(input);
    structure::adaptive::history(input);
    structure::hash::history(input);
});
