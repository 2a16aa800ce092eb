//! The first copy of a manifest, as it is and with right checksums. What is read is written as the same bytes, but for
//! the version and what stands behind it.
#![no_main]

use ecotone_fuzz::{bounded, seal_file};
use ecotone_substrate::{manifest::Manifest, storage::FileId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = bounded(input.len(), || Manifest::decode(input, 1));
    let mut bytes = input.to_vec();
    seal_file(FileId::Manifest(1), &mut bytes);
    let decoded = bounded(bytes.len(), || Manifest::decode(&bytes, 1));
    if let Ok(manifest) = decoded {
        let written = manifest.encode(1);
        assert!(bytes[8] != 3 || bytes.starts_with(&written));
    }
});
