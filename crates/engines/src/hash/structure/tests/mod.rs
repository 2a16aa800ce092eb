//! Structures and their changes: as bytes, in random rows, and damaged.

mod golden;
mod histories;
mod misfits;

use super::*;
use crate::hash::{Compaction, HashOptions, blob, log::PAGE};

const MIB: u64 = 1 << 20;

fn file(number: u32) -> File {
    File { number, birth: 1 << 32 | u64::from(number) }
}

fn stretch(bits: u8, number: u8) -> Stretch {
    Stretch::new(bits, number).unwrap()
}

fn part(bits: u8, number: u8, base: Option<u32>) -> Part {
    Part { stretch: stretch(bits, number), base: base.map(file) }
}

fn page(number: u64) -> Address {
    Address::new(number * PAGE)
}

fn compact(comes: Option<u32>, begin: u64, durable: u64) -> Change {
    Change::Compact { comes: comes.map(file), begin: page(begin), durable: page(durable), index_bits: 10 }
}

/// The structure after some changes that fit.
fn made(changes: &[Change]) -> Structure {
    let apply = |structure: Structure, change: &Change| structure.after(change).unwrap().0;
    changes.iter().fold(Structure::new(10), apply)
}

/// One segment behind the first address, with all of it durable, and then three deltas, of which half of the partitions
/// have folded two.
fn example() -> (Vec<Change>, Structure) {
    let changes = vec![
        Change::Segment(LogFile { file: file(1), from: page(1), bytes: MIB }),
        compact(Some(2), 20, 30),
        compact(Some(3), 40, 50),
        Change::Fold { goes: part(0, 0, None), comes: vec![part(1, 0, Some(4)), part(1, 1, None)], folded: page(20) },
        compact(None, 60, 60),
        Change::Fold { goes: part(1, 0, Some(4)), comes: vec![part(1, 0, Some(5))], folded: page(40) },
        Change::Segment(LogFile { file: file(6), from: page(257), bytes: 2 * MIB }),
        compact(Some(7), 100, 300),
    ];
    let structure = made(&changes);
    (changes, structure)
}

#[test]
fn an_example_is_as_its_changes_say() {
    let (_, structure) = example();
    structure.check().unwrap();
    assert_eq!((structure.begin, structure.durable, structure.index_bits), (page(100), page(300), 10));
    let segments: Vec<_> = structure.segments.iter().map(|segment| segment.file.number).collect();
    let deltas: Vec<_> = structure.deltas.iter().map(|delta| (delta.file.number, delta.until)).collect();
    assert_eq!((segments, deltas), (vec![1, 6], vec![(3, page(40)), (7, page(100))]));
    let parts: Vec<_> = structure.partitions.iter().map(|partition| (partition.part, partition.folded)).collect();
    assert_eq!(parts, [(part(1, 0, Some(5)), page(40)), (part(1, 1, None), page(20))]);
}

#[test]
fn what_goes_is_told_once() {
    let (_, structure) = example();
    let (next, gone) = structure.after(&compact(None, 257, 300)).unwrap();
    assert_eq!(gone, Gone { segments: vec![file(1)], tables: vec![] });
    let fold = Change::Fold { goes: part(1, 1, None), comes: vec![part(1, 1, Some(8))], folded: page(100) };
    let (next, gone) = next.after(&fold).unwrap();
    assert_eq!(gone, Gone { segments: vec![], tables: vec![file(3)] });
    let fold = Change::Fold { goes: part(1, 0, Some(5)), comes: vec![part(1, 0, None)], folded: page(100) };
    let (next, gone) = next.after(&fold).unwrap();
    assert_eq!(gone, Gone { segments: vec![], tables: vec![file(5), file(7)] });
    assert_eq!(next.numbers().collect::<Vec<_>>(), [6, 8]);
}

#[test]
fn a_segment_that_comes_too_late_goes_at_once() {
    let late = LogFile { file: file(1), from: page(1), bytes: MIB };
    let structure = made(&[compact(Some(2), 300, 300)]);
    let (next, gone) = structure.after(&Change::Segment(late)).unwrap();
    assert_eq!((next, gone.segments), (structure, vec![late.file]));
}

#[test]
fn roots_and_changes_come_back_and_every_cut_is_noticed() {
    let (changes, structure) = example();
    let options = HashOptions { disk: Some(1 << 30), hot_disk: 7, compaction: Compaction::Scan, read_cache: false };
    let root = blob::encode(options, &structure);
    assert_eq!(blob::decode(&root), Ok((options, structure.clone())));
    // The form before had no options.
    let before = [&[1][..], &blob::encode(HashOptions::default(), &structure)[18..]].concat();
    assert_eq!(blob::decode(&before), Ok((HashOptions::default(), structure)));
    (0..root.len()).for_each(|cut| assert!(blob::decode(&root[..cut]).is_err(), "root, {cut}"));
    assert!(blob::decode(&[&root[..], &[0]].concat()).is_err());
    let merge = Change::Merge { goes: vec![file(3), file(7)], comes: Some(file(8)) };
    for change in changes.into_iter().chain([merge, Change::Merge { goes: vec![file(3)], comes: None }]) {
        let body = change.encode();
        assert_eq!(Change::decode(&body).as_ref(), Ok(&change));
        (0..body.len()).for_each(|cut| assert!(Change::decode(&body[..cut]).is_err(), "{change:?}, {cut}"));
        assert!(Change::decode(&[&body[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_keyspace_of_a_few_mebibytes_has_a_short_root() {
    let deltas = (0..4_u64).map(|number| compact(Some(number as u32 + 2), 10 * (number + 1), 200));
    let segment = Change::Segment(LogFile { file: file(1), from: page(1), bytes: MIB });
    let structure = made(&[segment].into_iter().chain(deltas).collect::<Vec<_>>());
    assert!(blob::encode(HashOptions::default(), &structure).len() < 200);
}
