//! Golden bytes of a table with each kind of index.

use ecotone_substrate::{
    codec::hex::{golden, render},
    limits::PAGE,
};
use ecotone_testkit::table::BEGINNING;

use crate::table::tests::*;

/// The labels of the header's other fields.
const HEADER: [(usize, &str); 17] = [
    (1, "log2 of the block size"),
    (1, "kind of index"),
    (1, "bits of the filter"),
    (1, "compression"),
    (4, "blocks"),
    (8, "records"),
    (8, "tombstones"),
    (8, "bytes of keys and values"),
    (8, "smallest sequence"),
    (8, "largest sequence"),
    (4, "pages of a partitioned index"),
    (4, "bytes of the index"),
    (4, "lines of the filter"),
    (4, "checksum of the index"),
    (4, "checksum of the filter"),
    (2, "length of the first key"),
    (2, "of the last key"),
];

/// The labels of a key. Long keys repeat one letter up to the last byte.
fn key_labels(length: usize, label: &'static str) -> Vec<(usize, &'static str)> {
    if length > 100 { vec![(length - 1, label), (1, "its last byte")] } else { vec![(length, label)] }
}

/// The labels of a block.
fn block(table: &Table, number: u32, memory: &mut storage::Block) -> Vec<(usize, &'static str)> {
    let block = table.read(number, memory).unwrap();
    let mut labels =
        vec![(4, "checksum of the block"), (1, "form"), (1, "reserved"), (2, "records"), (2, "end"), (6, "reserved")];
    let (mut at, mut count, mut last) = (16, 0, Vec::new());
    block
        .each(|key, value| {
            let shared = if count % 16 == 0 { 0 } else { prefix_compare::common_prefix_len(&last, key) };
            let entry = entry::Entry { shared, rest: &key[shared..], value };
            let value = value.map_or(0, <[u8]>::len);
            labels.push((1, "entry: kind, shared"));
            labels.push((entry.len() - 1 - entry.rest.len() - value, "lengths"));
            labels.extend(key_labels(entry.rest.len(), "rest of the key"));
            labels.extend([(value, "value")].into_iter().filter(|(length, _)| *length > 0));
            (at, count, last) = (at + entry.len(), count + 1, key.to_vec());
            Ok(())
        })
        .unwrap();
    labels.extend([(PAGE - at - 2 * block.runs(), "gap"), (2 * block.runs(), "restarts")]);
    labels
}

/// The labels of a partition. Each separator is a run of its own.
fn partition(separators: usize) -> Vec<(usize, &'static str)> {
    let mut labels =
        vec![(4, "checksum of the partition"), (4, "first block"), (4, "blocks"), (4, "end"), (4, "runs"), (4, "zero")];
    labels.extend([(4, "run: place"), (4, "first block, within the partition")].repeat(separators));
    let separator = [&[(1, "separator: shared"), (2, "rest")][..], &key_labels(901, "rest of the separator")].concat();
    labels.extend(separator.repeat(separators));
    labels.push((PAGE - 24 - separators * (8 + 904), "to the end of the page"));
    labels
}

fn index(kind: IndexKind) -> Vec<(usize, &'static str)> {
    match kind {
        IndexKind::Partitioned => vec![
            (4, "index: runs"),
            (4, "zero"),
            (4, "run: place"),
            (4, "first partition"),
            (1, "separator: shared"),
            (2, "rest"),
            (900, "rest of the separator"),
            (1, "its last byte"),
        ],
        IndexKind::Single => vec![
            (4, "index: runs"),
            (4, "zero"),
            (4, "run: place"),
            (4, "first block"),
            (1, "separator: shared"),
            (1, "rest"),
            (1, "rest of the separator"),
            (1, "separator: shared"),
            (1, "rest"),
            (7, "rest of the separator"),
        ],
        IndexKind::Plr => {
            vec![
                (4, "index: segments"),
                (4, "bound"),
                (8, "reserved"),
                (8, "segment: digest"),
                (4, "block"),
                (4, "slope"),
            ]
        }
        IndexKind::Linear => vec![
            (1, "index: log2 of a group"),
            (3, "reserved"),
            (4, "groups"),
            (8, "last digest"),
            (8, "group: base"),
            (3, "place of the deviations"),
            (1, "shift"),
            (1, "width"),
            (3, "least deviation"),
        ],
    }
}

#[test]
fn a_table_with_each_kind_of_index() {
    let record = |key: &str, value: Option<Vec<u8>>| (key.as_bytes().to_vec(), value);
    let records: Records = [
        record("Almelo", Some(b"52.36 6.66".to_vec())),
        record("Amersfoort", Some(vec![7; 1800])),
        record("Amsterdam", Some(vec![8; 1800])),
        record("Utrecht", Some(vec![9; 1000])),
        record("Utrecht Overvecht", Some(Vec::new())),
        record("Zutphen", Some(vec![10; 1890])),
        record("Zutphen a station with a longer name", Some(vec![11; 600])),
        record("Zwolle", None),
        record("Zwolle Stadshagen", Some(vec![12; 600])),
    ]
    .into();
    for (kind, name) in
        [(IndexKind::Single, "lsm-single"), (IndexKind::Plr, "lsm-plr"), (IndexKind::Linear, "lsm-linear")]
    {
        whole(kind, name, &records, (3, &[]));
    }
}

#[test]
fn a_table_with_a_partitioned_index() {
    whole(IndexKind::Partitioned, "lsm-partitioned", &long(12), (6, &[4, 0]));
}

/// The labelled bytes of a table of some blocks, with the number of separators of each partition.
fn whole(kind: IndexKind, name: &str, records: &Records, (blocks, partitions): (u32, &[usize])) {
    let disk = SimStorage::new(1);
    let environment = environment(&disk);
    let table = write(&environment, NAME, options(kind, 4096), records).unwrap().unwrap();
    let (first, last) = table.range();
    assert_eq!((table.blocks(), table.index_kind(), table.partitions() as usize), (blocks, kind, partitions.len()));
    let mut labels = [&BEGINNING[..], &HEADER].concat();
    labels.extend(key_labels(first.len(), "first key").into_iter().chain(key_labels(last.len(), "last key")));
    labels.push((PAGE - 136 - first.len() - last.len(), "reserved"));
    let mut memory = table.memory_for_a_block(&environment).unwrap();
    (0..table.blocks()).for_each(|number| labels.extend(block(&table, number, &mut memory)));
    partitions.iter().for_each(|separators| labels.extend(partition(*separators)));
    let before: usize = labels.iter().map(|(length, _)| length).sum();
    assert_eq!(before, (1 + blocks as usize + partitions.len()) * PAGE);
    labels.extend(index(kind));
    let inside: usize = index(kind).iter().map(|(length, _)| length).sum();
    labels.extend([
        (table.header.index_bytes as usize - inside, "rest of the index"),
        (PAGE - table.header.index_bytes as usize, "to the end of the page"),
        (64, "filter: line"),
        (PAGE - 64, "to the end of the page"),
    ]);
    golden(name, &render(&disk.files()[&NAME.file()], &labels));
}
