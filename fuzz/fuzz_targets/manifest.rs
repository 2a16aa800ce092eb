//! A manifest, as it is and with right checksums. What is read is written as the same bytes.
#![no_main]

use ecotone_fuzz::{bounded, seal_file};
use ecotone_substrate::{manifest::Manifest, storage::FileId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let number = input.get(48..56).and_then(|bytes| bytes.first_chunk().copied()).map_or(1, u64::from_le_bytes);
    let _ = bounded(input.len(), || Manifest::decode(input, number));
    let mut bytes = input.to_vec();
    seal_file(FileId::Manifest(number), &mut bytes);
    let decoded = bounded(bytes.len(), || Manifest::decode(&bytes, number));
    if let Ok(manifest) = decoded {
        assert_eq!(manifest.encode(), bytes);
    }
});
