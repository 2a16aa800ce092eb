//! Structures and their edits: encoding, random sequences, and damage.

mod golden;
mod histories;
mod misfits;

use super::*;
use crate::{Compaction, HashOptions, blob, log::PAGE};

const MIB: u64 = 1 << 20;

fn file(number: u32) -> FileRef {
    FileRef { number, birth: 1 << 32 | u64::from(number) }
}

fn hash_range(bits: u8, number: u8) -> HashRange {
    HashRange::new(bits, number).unwrap()
}

fn part(bits: u8, number: u8, base: Option<u32>) -> PartitionEntry {
    PartitionEntry { hash_range: hash_range(bits, number), base: base.map(file) }
}

fn page(number: u64) -> Address {
    Address::new(number * PAGE)
}

fn compact(added: Option<u32>, begin: u64, durable: u64) -> ManifestEdit {
    ManifestEdit::Compact { added: added.map(file), begin: page(begin), durable: page(durable), index_bits: 10 }
}

/// The structure after some valid edits.
fn made(changes: &[ManifestEdit]) -> HashManifest {
    let apply = |manifest: HashManifest, change: &ManifestEdit| manifest.after(change).unwrap().0;
    changes.iter().fold(HashManifest::new(10), apply)
}

/// One segment behind the first address, all of it durable, and then three deltas. Half of the partitions have merged
/// two of them.
fn example() -> (Vec<ManifestEdit>, HashManifest) {
    let changes = vec![
        ManifestEdit::Segment(LogFile { file: file(1), from: page(1), bytes: MIB }),
        compact(Some(2), 20, 30),
        compact(Some(3), 40, 50),
        ManifestEdit::MergeIntoBase {
            deleted: part(0, 0, None),
            added: vec![part(1, 0, Some(4)), part(1, 1, None)],
            merged_until: page(20),
        },
        compact(None, 60, 60),
        ManifestEdit::MergeIntoBase {
            deleted: part(1, 0, Some(4)),
            added: vec![part(1, 0, Some(5))],
            merged_until: page(40),
        },
        ManifestEdit::Segment(LogFile { file: file(6), from: page(257), bytes: 2 * MIB }),
        compact(Some(7), 100, 300),
    ];
    let manifest = made(&changes);
    (changes, manifest)
}

#[test]
fn an_example_is_as_its_changes_say() {
    let (_, manifest) = example();
    manifest.check().unwrap();
    assert_eq!((manifest.begin, manifest.durable, manifest.index_bits), (page(100), page(300), 10));
    let segments: Vec<_> = manifest.segments.iter().map(|segment| segment.file.number).collect();
    let deltas: Vec<_> = manifest.deltas.iter().map(|delta| (delta.file.number, delta.until)).collect();
    assert_eq!((segments, deltas), (vec![1, 6], vec![(3, page(40)), (7, page(100))]));
    let parts: Vec<_> = manifest.partitions.iter().map(|partition| (partition.part, partition.merged_until)).collect();
    assert_eq!(parts, [(part(1, 0, Some(5)), page(40)), (part(1, 1, None), page(20))]);
}

#[test]
fn what_goes_is_told_once() {
    let (_, manifest) = example();
    let (next, gone) = manifest.after(&compact(None, 257, 300)).unwrap();
    assert_eq!(gone, ObsoleteFiles { segments: vec![file(1)], tables: vec![] });
    let merge_into_base = ManifestEdit::MergeIntoBase {
        deleted: part(1, 1, None),
        added: vec![part(1, 1, Some(8))],
        merged_until: page(100),
    };
    let (next, gone) = next.after(&merge_into_base).unwrap();
    assert_eq!(gone, ObsoleteFiles { segments: vec![], tables: vec![file(3)] });
    let merge_into_base = ManifestEdit::MergeIntoBase {
        deleted: part(1, 0, Some(5)),
        added: vec![part(1, 0, None)],
        merged_until: page(100),
    };
    let (next, gone) = next.after(&merge_into_base).unwrap();
    assert_eq!(gone, ObsoleteFiles { segments: vec![], tables: vec![file(5), file(7)] });
    assert_eq!(next.numbers().collect::<Vec<_>>(), [6, 8]);
}

#[test]
fn a_segment_that_comes_too_late_goes_at_once() {
    let late = LogFile { file: file(1), from: page(1), bytes: MIB };
    let manifest = made(&[compact(Some(2), 300, 300)]);
    let (next, gone) = manifest.after(&ManifestEdit::Segment(late)).unwrap();
    assert_eq!((next, gone.segments), (manifest, vec![late.file]));
}

#[test]
fn roots_and_changes_come_back_and_every_cut_is_noticed() {
    let (changes, manifest) = example();
    let options = HashOptions { disk: Some(1 << 30), hot_disk: 7, compaction: Compaction::Scan, read_cache: false };
    let root = blob::encode(options, &manifest);
    assert_eq!(blob::decode(&root), Ok((options, manifest.clone())));
    // The version before had no options.
    let before = [&[1][..], &blob::encode(HashOptions::default(), &manifest)[18..]].concat();
    assert_eq!(blob::decode(&before), Ok((HashOptions::default(), manifest)));
    (0..root.len()).for_each(|cut| assert!(blob::decode(&root[..cut]).is_err(), "root, {cut}"));
    assert!(blob::decode(&[&root[..], &[0]].concat()).is_err());
    let merge = ManifestEdit::MergeDeltas { deleted: vec![file(3), file(7)], added: Some(file(8)) };
    for change in changes.into_iter().chain([merge, ManifestEdit::MergeDeltas { deleted: vec![file(3)], added: None }])
    {
        let body = change.encode();
        assert_eq!(ManifestEdit::decode(&body).as_ref(), Ok(&change));
        (0..body.len()).for_each(|cut| assert!(ManifestEdit::decode(&body[..cut]).is_err(), "{change:?}, {cut}"));
        assert!(ManifestEdit::decode(&[&body[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_keyspace_of_a_few_mebibytes_has_a_short_root() {
    let deltas = (0..4_u64).map(|number| compact(Some(number as u32 + 2), 10 * (number + 1), 200));
    let segment = ManifestEdit::Segment(LogFile { file: file(1), from: page(1), bytes: MIB });
    let manifest = made(&[segment].into_iter().chain(deltas).collect::<Vec<_>>());
    assert!(blob::encode(HashOptions::default(), &manifest).len() < 200);
}
