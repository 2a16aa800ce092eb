//! Runs the fuzz bodies on slightly damaged inputs: nothing panics, and enough of the inputs stay whole for the test to
//! be meaningful.

use std::collections::BTreeMap;

use ecotone_adaptive::{AdaptiveOptions, blob::Blob};
use ecotone_hash::{
    HashOptions, blob as hash_blob,
    cold::{HashRange, RunKind, RunWriter},
    log::Address,
    structure::{HashManifest as HashStructure, LogFile, ManifestEdit as HashChange, PartitionEntry},
};
use ecotone_lsm::{
    LsmOptions, blob,
    manifest::{LevelManifest, PagedRangeEdit, RangeEditKind, RunId, VersionEdit},
    table::{Compression, IndexKind, IndexOptions, Options, TableWriter},
};
use ecotone_substrate::table::FileRef;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::sim::SimStorage;

/// Records with keys of many lengths; a record without a value is a tombstone.
fn records(count: u32) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let record = |number: u32| {
        let mut key = number.wrapping_mul(0x9E37_79B9).to_be_bytes().to_vec();
        key.extend(vec![b'k'; (number % 50) as usize]);
        (key.clone(), (!number.is_multiple_of(9)).then(|| key.repeat(4)))
    };
    (0..count).map(record).collect()
}

fn file(disk: &SimStorage) -> Vec<u8> {
    disk.files().remove(&NAME.file()).expect("it was written")
}

fn a_table(kind: IndexKind, block: usize, count: u32) -> Vec<u8> {
    table_of(kind, block, Compression::None, &records(count))
}

fn table_of(
    kind: IndexKind,
    block: usize,
    compression: Compression,
    records: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Vec<u8> {
    let disk = SimStorage::new(1);
    let options = Options { block, filter_bits: 10, compression, index: IndexOptions::of(kind, 2000) };
    let mut writer = TableWriter::create(&disk.environment(NAME.database, 4 << 20), NAME, options).unwrap();
    records.iter().for_each(|(key, value)| writer.push(hash(key), key, value.as_deref()).unwrap());
    writer.finish((1, 2)).unwrap();
    file(&disk)
}

fn a_run(count: u32) -> Vec<u8> {
    let disk = SimStorage::new(1);
    let kind = RunKind::Delta { from: 4096, until: 8192 };
    let mut writer = RunWriter::create(&disk.environment(NAME.database, 4 << 20), NAME, kind, run::BLOCK).unwrap();
    let sorted: BTreeMap<_, _> = records(count).into_iter().map(|(key, value)| ((hash(&key), key), value)).collect();
    sorted.iter().for_each(|((hash, key), value)| writer.push(*hash, key, value.as_deref()).unwrap());
    writer.finish().unwrap();
    file(&disk)
}

/// Changes a few bytes, mostly nonzero ones; gives `judge` each result, and returns how many passed.
fn damaged(whole: &[u8], turns: usize, judge: impl Fn(&[u8]) -> bool) -> usize {
    let mut random = SmallRng::seed_from_u64(whole.len() as u64);
    assert!(judge(whole), "it is whole");
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let passes = (0..turns).filter(|_| {
        let mut bytes = whole.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = if random.random_bool(0.8) {
                used[random.random_range(0..used.len())]
            } else {
                random.random_range(0..bytes.len())
            };
            bytes[at] =
                if random.random_bool(0.5) { bytes[at] ^ 1 << random.random_range(0..8) } else { random.random() };
        }
        judge(&bytes)
    });
    passes.count()
}

#[test]
fn damaged_tables_end_in_an_answer_or_an_error() {
    for (kind, block, count) in [
        (IndexKind::Single, 4096, 120),
        (IndexKind::Plr, 4096, 60),
        (IndexKind::Linear, 4096, 150),
        (IndexKind::Linear, 8192, 150),
    ] {
        let whole = a_table(kind, block, count);
        let pages = whole.len() / PAGE + 13;
        let passed = damaged(&whole, 400, |bytes| table::table(pages, bytes));
        assert!((20..380).contains(&passed), "{kind:?}: {passed} of 400 passed the check");
    }
}

/// Two records a block. The last key of each block shares a long prefix with the next key, so that an index of few
/// separators has two partitions.
#[test]
fn damaged_partitions_end_in_an_answer_or_an_error() {
    let record = |number: u8| ([&[b'a' + number.div_ceil(2); 900][..], &[number]].concat(), Some(vec![number; 900]));
    let whole = table_of(IndexKind::Partitioned, 4096, Compression::None, &(0..12).map(record).collect());
    assert_eq!((whole[65], whole[112], whole.len()), (2, 2, 11 * PAGE));
    let passed = damaged(&whole, 1000, |bytes| table::table(11 + 13, bytes));
    assert!((20..950).contains(&passed), "{passed} of 1000 passed the check");
}

#[test]
fn damaged_runs_end_in_an_answer_or_an_error() {
    let whole = a_run(60);
    let pages = whole.len() / PAGE + 6;
    let passed = damaged(&whole, 1000, |bytes| run::run(pages, bytes));
    assert!((20..980).contains(&passed), "{passed} of 1000 passed the check");
}

#[test]
fn damaged_blocks_end_in_an_answer_or_an_error() {
    let (table, run) = (a_table(IndexKind::Linear, 4096, 60), a_run(60));
    let passed = damaged(&table[PAGE..2 * PAGE], 5000, table::block);
    assert!((100..4900).contains(&passed), "{passed} of 5000 passed the check");
    let packed = table_of(IndexKind::Linear, 4096, Compression::Lz4, &records(200));
    assert_eq!(packed[PAGE + 4], 2);
    let passed = damaged(&packed[PAGE..2 * PAGE], 5000, table::block);
    assert!((100..4900).contains(&passed), "{passed} of 5000 passed the check");
    let passed = damaged(&run[PAGE..PAGE + run::BLOCK], 5000, run::block);
    assert!((100..4900).contains(&passed), "{passed} of 5000 passed the check");
}

/// A record of a hot log: link and capacity, lengths and kind, key and value.
fn a_record(number: u32, kind: u64) -> Vec<u8> {
    let (key, value) = (number.to_be_bytes(), vec![number as u8; if kind == 2 { 0 } else { number as usize % 90 }]);
    let words = (key.len() + value.len()).div_ceil(8) + number as usize % 2;
    let first = u64::from(number) << 3 | (words as u64) << 41;
    let second = (key.len() - 1) as u64 | (value.len() as u64) << 10 | kind << 21;
    let mut record = [&first.to_le_bytes()[..], &second.to_le_bytes(), &key, &value].concat();
    record.resize(16 + words * 8, 0x5a);
    record
}

/// Pages of a hot log, behind the file header.
fn a_segment(pages: usize) -> Vec<u8> {
    let mut file = vec![0; PAGE];
    file[64..72].copy_from_slice(&Address::FIRST.get().to_le_bytes());
    file[72..80].copy_from_slice(&hot_log::SEGMENT.to_le_bytes());
    for page in 1..=pages {
        let records = (0..30).flat_map(|number| a_record(number * 7 + page as u32, [1, 1, 2, 0][number as usize % 4]));
        let mut bytes = [vec![0; 16], records.collect()].concat();
        let used = bytes.len() as u16;
        bytes[4] = 1;
        bytes[6..8].copy_from_slice(&used.to_le_bytes());
        bytes[8..16].copy_from_slice(&((page * PAGE) as u64).to_le_bytes());
        bytes.resize(PAGE, 0);
        file.extend(bytes);
    }
    file
}

#[test]
fn damaged_hot_logs_end_in_an_answer_or_an_error() {
    let whole = a_segment(3);
    let passed = damaged(&whole[PAGE..2 * PAGE], 5000, hot_log::page);
    assert!((100..4900).contains(&passed), "{passed} of 5000 pages are whole");
    let passed = damaged(&whole, 200, |bytes| hot_log::segment(2, bytes) == Some(3));
    assert!((10..190).contains(&passed), "{passed} of 200 segments are whole");
}

/// The root of an empty keyspace, then a segment, three compactions, a base merge of the partition into halves, and a
/// merge of runs.
fn a_hash_history() -> Vec<u8> {
    let file = |number: u32| FileRef { number, birth: u64::from(number) << 32 };
    let page = |number: u64| Address::new(number * PAGE as u64);
    let part = |bits, number, base: Option<u32>| PartitionEntry {
        hash_range: HashRange::new(bits, number).unwrap(),
        base: base.map(file),
    };
    let compact = |added, begin| HashChange::Compact {
        added: Some(file(added)),
        begin: page(begin),
        durable: page(99),
        index_bits: 10,
    };
    let changes = [
        HashChange::Segment(LogFile { file: file(1), from: page(1), bytes: 1 << 20 }),
        compact(2, 20),
        compact(3, 40),
        compact(300, 60),
        HashChange::MergeIntoBase {
            deleted: part(0, 0, None),
            added: vec![part(1, 0, Some(4)), part(1, 1, None)],
            merged_until: page(20),
        },
        HashChange::MergeDeltas { deleted: vec![file(3), file(300)], added: Some(file(7)) },
    ];
    let root = hash_blob::encode(HashOptions::default(), &HashStructure::new(10));
    parts([root].into_iter().chain(changes.iter().map(HashChange::encode)))
}

/// Each part, preceded by its length.
fn parts(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    parts.flat_map(|part| [&(part.len() as u16).to_le_bytes()[..], &part].concat()).collect()
}

/// A root of three tables without paged ranges, a flush that adds a paged range, a compaction that reactivates a part
/// of it, and a move.
fn changes() -> (LevelManifest, [VersionEdit; 3]) {
    let file = |number: u32| FileRef { number, birth: u64::from(number) << 32 };
    let (mut manifest, [young, upper, last]) =
        (LevelManifest::default(), [RunId::L0(0), RunId::at_depth(2), RunId::LAST]);
    let three = vec![(upper, file(1)), (last, file(2)), (last, file(300))];
    manifest.apply(&VersionEdit { added: three, ..VersionEdit::default() }).unwrap();
    let edit = |upper: &[u8], kind| PagedRangeEdit { lower: b"a".to_vec(), upper: upper.to_vec(), kind };
    let (covered, opened) = (vec![edit(b"k", RangeEditKind::Add(young))], vec![edit(b"c", RangeEditKind::Reactivate)]);
    let changes = [
        VersionEdit { deleted: vec![], added: vec![(young, file(4)), (young, file(5))], paged_ranges: covered },
        VersionEdit { deleted: vec![file(4), file(5), file(1)], added: vec![(upper, file(6))], paged_ranges: opened },
        VersionEdit { deleted: vec![file(6)], added: vec![(last, file(6))], ..VersionEdit::default() },
    ];
    (manifest, changes)
}

/// The same edits in an lsm, which has no paged ranges.
fn an_lsm_history() -> Vec<u8> {
    let (manifest, changes) = changes();
    let uncovered = changes.map(|change| VersionEdit { paged_ranges: vec![], ..change });
    parts([blob::encode(LsmOptions::default(), &manifest)].into_iter().chain(uncovered.iter().map(VersionEdit::encode)))
}

/// The same edits behind a root that has another paged range already.
fn an_adaptive_history() -> Vec<u8> {
    let (mut manifest, changes) = changes();
    let cover =
        PagedRangeEdit { lower: b"p".to_vec(), upper: b"t".to_vec(), kind: RangeEditKind::Add(RunId::at_depth(2)) };
    manifest.apply(&VersionEdit { paged_ranges: vec![cover], ..VersionEdit::default() }).unwrap();
    let (paged_ranges, lsm) =
        (manifest.paged_ranges().as_ref().clone(), blob::encode(LsmOptions::default(), &manifest));
    let root = Blob { options: AdaptiveOptions::default(), paged_ranges, lsm, tree: Vec::new() };
    let records = changes.iter().map(|change| [&[1], &*change.encode()].concat());
    parts([root.encode()].into_iter().chain(records))
}

#[test]
fn damaged_roots_and_records_end_in_an_answer_or_an_error() {
    let passed = damaged(&an_lsm_history(), 20_000, |bytes| structure::lsm::history(bytes) == 4);
    assert!((200..19_000).contains(&passed), "{passed} of 20000 are whole");
    let passed = damaged(&an_adaptive_history(), 20_000, |bytes| structure::adaptive::history(bytes) == 4);
    assert!((200..19_000).contains(&passed), "{passed} of 20000 are whole");
    let passed = damaged(&a_hash_history(), 20_000, |bytes| structure::hash::history(bytes) == 7);
    assert!((200..19_000).contains(&passed), "{passed} of 20000 are whole");
}

#[test]
fn an_input_of_any_length_ends_in_an_answer_or_an_error() {
    let mut random = SmallRng::seed_from_u64(1);
    for length in [0, 1, 19, 64, 137, 1024, 4096, 9000, 70_000] {
        let input: Vec<u8> = (0..length).map(|_| random.random()).collect();
        assert!(!table::table(length, &input) && !run::run(length, &input));
        assert!(!table::block(&input) && !run::block(&input));
        assert!(!hot_log::page(&input) && hot_log::segment(length, &input).is_none());
        assert_eq!((structure::lsm::history(&input), structure::hash::history(&input)), (0, 0));
    }
}
