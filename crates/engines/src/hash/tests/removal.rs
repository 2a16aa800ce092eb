//! Files are removed when the record is synced that drops them, and no sooner.

use ecotone_substrate::{
    environment::Environment,
    storage::{Access, FileId, Storage},
    wal::{Durability, WalOptions},
};
use ecotone_testkit::sim::SimStorage;

use super::*;
use crate::{
    engine::Engine,
    hash::{
        blob,
        cold::Stretch,
        compact::{Goals, Install},
        keyspace::HashKeyspace,
        log::tests::files::Ground,
        structure::{Change, File, LogFile, Part, Structure},
    },
    tests::context,
};

const KEYSPACE: u32 = 3;
const SEGMENT: u64 = 1 << 20;
const LOG: WalOptions =
    WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 1 << 20, longest_bytes: 1 << 20 };

/// Those of an empty keyspace with a log.
pub(super) fn files(disk: &SimStorage) -> Files {
    files_of(Ground::new(disk.clone()).environment, true, HashOptions::default())
}

/// Those of an empty keyspace.
pub(super) fn files_of(environment: Environment, logged: bool, options: HashOptions) -> Files {
    Files::new(context(&environment, LOG, logged, 1), options, Structure::new(10))
}

/// The keyspace in its next life, without what was not flushed.
pub(super) fn reopened(keyspace: HashKeyspace, files: &Files, goals: Goals) -> HashKeyspace {
    let (options, structure) = blob::decode(&keyspace.checkpoint().unwrap().blob).unwrap();
    drop(keyspace);
    let keyspace = HashKeyspace::open(Arc::new(Files::new(files.context().clone(), options, structure)), None, goals);
    keyspace.structure_recovered().unwrap();
    keyspace
}

#[test]
fn trap_05_no_file_goes_before_its_record_is_synced() {
    let disk = SimStorage::new(1);
    let files = files(&disk);
    let wal = files.context().shared.wal.clone();
    let [segment, delta, base, next_base] = [1, 2, 3, 4].map(|number| File { number, birth: number.into() });
    let table = |File { number, .. }: File| FileId::Table { keyspace: KEYSPACE, number };
    let first = FileId::Segment { keyspace: KEYSPACE, number: segment.number };
    for made in [first, table(delta), table(base), table(next_base)] {
        disk.create(made, Access::Direct).unwrap();
    }
    let (end, all) = (Address::FIRST.plus(SEGMENT), |base| Part { stretch: Stretch::ALL, base });
    files
        .install(&Change::Segment(LogFile { file: segment, from: Address::FIRST, bytes: SEGMENT }), &mut || ())
        .unwrap();
    for (change, goes) in [
        (Change::Compact { comes: Some(delta), begin: end, durable: end, index_bits: 10 }, first),
        (Change::Fold { goes: all(None), comes: vec![all(Some(base))], folded: end }, table(delta)),
        (Change::Fold { goes: all(Some(base)), comes: vec![all(Some(next_base))], folded: end }, table(base)),
    ] {
        files.install(&change, &mut || ()).unwrap();
        files.bury().unwrap();
        assert!(disk.list().unwrap().contains(&goes), "{goes} went before its record was synced");
        wal.commit(wal.tail(), Durability::Sync).unwrap();
        files.bury().unwrap();
        assert!(!disk.list().unwrap().contains(&goes), "{goes} stayed");
    }
    assert!(disk.list().unwrap().contains(&table(next_base)));
}
