//! Who writes while compaction is behind.

use ecotone_testkit::sim::SimStorage;

use super::{removal::files, *};
use crate::{
    engine::Hashed,
    hash::{compact::Goals, keyspace::HashKeyspace},
};

/// Writers wait for what the hot log has on disk, so that is compacted, however much it may have in memory.
#[test]
fn a_log_that_is_on_disk_for_want_of_memory_is_compacted() {
    let (files, goals) = (Arc::new(files(&SimStorage::new(1))), Goals { most_hot: 1 << 30, ..Goals::TINY });
    let sizes = Sizes { bucket_bits: 6, frames: 4, copies: 0 };
    let keyspace = HashKeyspace::create(files.clone(), sizes, goals).unwrap();
    for number in 0..12_000_u64 {
        keyspace.put(Operation { key: &number.to_le_bytes(), value: Some(&[1; 900]) }).unwrap();
    }
    assert!(files.structure().tables().count() > 0, "nothing was compacted");
}
