//! Files are removed when the record that drops them is synced, and no sooner.

use ecotone_engine::contract::{Engine, Recover};
use ecotone_substrate::{
    environment::Environment,
    storage::{Access, FileId, Storage},
    wal::{Durability, WalOptions},
};
use ecotone_testkit::{engine::context, sim::SimStorage};

use super::*;
use crate::{
    blob,
    cold::HashRange,
    compact::{CompactionLimits, Install},
    keyspace::HashKeyspace,
    log::tests::files::LogDisk,
    structure::{FileRef, HashManifest, LogFile, ManifestEdit, PartitionEntry},
};

const KEYSPACE: u32 = 3;
const SEGMENT: u64 = 1 << 20;
const LOG: WalOptions =
    WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 1 << 20, longest_bytes: 1 << 20 };

/// The files of an empty keyspace with a log.
pub(super) fn files(disk: &SimStorage) -> Files {
    files_of(LogDisk::new(disk.clone()).environment, true, HashOptions::default())
}

/// The files of an empty keyspace.
pub(super) fn files_of(environment: Environment, logged: bool, options: HashOptions) -> Files {
    Files::new(context(&environment, LOG, logged, 1), options, HashManifest::new(10))
}

/// The keyspace in its next session, without the writes that were not flushed.
pub(super) fn reopened(keyspace: HashKeyspace, files: &Files, limits: CompactionLimits) -> HashKeyspace {
    let (options, manifest) = blob::decode(&keyspace.checkpoint().unwrap().blob).unwrap();
    drop(keyspace);
    let keyspace = HashKeyspace::open(Arc::new(Files::new(files.context().clone(), options, manifest)), None, limits);
    keyspace.structure_recovered().unwrap();
    keyspace
}

#[test]
fn trap_05_no_file_goes_before_its_record_is_synced() {
    let disk = SimStorage::new(1);
    let files = files(&disk);
    let wal = files.context().shared.wal.clone();
    let [segment, delta, base, next_base] = [1, 2, 3, 4].map(|number| FileRef { number, birth: number.into() });
    let table = |FileRef { number, .. }: FileRef| FileId::Table { keyspace: KEYSPACE, number };
    let first = FileId::Segment { keyspace: KEYSPACE, number: segment.number };
    for made in [first, table(delta), table(base), table(next_base)] {
        disk.create(made, Access::Direct).unwrap();
    }
    let (end, all) = (Address::FIRST.plus(SEGMENT), |base| PartitionEntry { hash_range: HashRange::ALL, base });
    files
        .install(&ManifestEdit::Segment(LogFile { file: segment, from: Address::FIRST, bytes: SEGMENT }), &mut || ())
        .unwrap();
    for (change, deleted) in [
        (ManifestEdit::Compact { added: Some(delta), begin: end, durable: end, index_bits: 10 }, first),
        (
            ManifestEdit::MergeIntoBase { deleted: all(None), added: vec![all(Some(base))], merged_until: end },
            table(delta),
        ),
        (
            ManifestEdit::MergeIntoBase {
                deleted: all(Some(base)),
                added: vec![all(Some(next_base))],
                merged_until: end,
            },
            table(base),
        ),
    ] {
        files.install(&change, &mut || ()).unwrap();
        files.delete_obsolete().unwrap();
        assert!(disk.list().unwrap().contains(&deleted), "{deleted} went before its record was synced");
        wal.commit(wal.tail(), Durability::Sync).unwrap();
        files.delete_obsolete().unwrap();
        assert!(!disk.list().unwrap().contains(&deleted), "{deleted} stayed");
    }
    assert!(disk.list().unwrap().contains(&table(next_base)));
}
