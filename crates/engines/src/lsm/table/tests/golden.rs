//! The bytes of a table with each kind of index.

use ecotone_substrate::{
    codec::hex::{golden, render},
    limits::PAGE,
};
use ecotone_testkit::table::BEGINNING;

use super::*;

/// What follows in the header.
const HEADER: [(usize, &str); 16] = [
    (1, "log2 of the block size"),
    (1, "kind of index"),
    (2, "bits of the filter"),
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

/// The labels of a block.
fn block(table: &Table, number: u32, memory: &mut storage::Block) -> Vec<(usize, &'static str)> {
    let block = table.read(number, memory).unwrap();
    let mut labels =
        vec![(4, "checksum of the block"), (1, "form"), (1, "reserved"), (2, "records"), (2, "end"), (6, "reserved")];
    let (mut at, mut count, mut last) = (16, 0, Vec::new());
    block
        .each(|key, value| {
            let shared = if count % 16 == 0 { 0 } else { rank::common(&last, key) };
            let entry = entry::Entry { shared, rest: &key[shared..], value };
            let value = value.map_or(0, <[u8]>::len);
            labels.push((1, "entry: kind, shared"));
            labels.push((entry.len() - 1 - entry.rest.len() - value, "lengths"));
            labels
                .extend([(entry.rest.len(), "rest of the key"), (value, "value")].into_iter().filter(|(length, _)| *length > 0));
            (at, count, last) = (at + entry.len(), count + 1, key.to_vec());
            Ok(())
        })
        .unwrap();
    labels.extend([(PAGE - at - 2 * block.runs(), "gap"), (2 * block.runs(), "restarts")]);
    labels
}

fn index(kind: Kind) -> Vec<(usize, &'static str)> {
    match kind {
        Kind::Single => vec![
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
        Kind::Plr => {
            vec![(4, "index: segments"), (4, "bound"), (8, "reserved"), (8, "segment: digest"), (4, "block"), (4, "slope")]
        }
        Kind::Linear => vec![
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
    for (kind, name) in [(Kind::Single, "lsm-single"), (Kind::Plr, "lsm-plr"), (Kind::Linear, "lsm-linear")] {
        let disk = SimStorage::new(1);
        let environment = environment(&disk);
        let table = write(&environment, NAME, options(kind, 4096), &records).unwrap().unwrap();
        let (first, last) = table.range();
        assert_eq!((table.blocks(), table.index_kind()), (3, kind));
        let mut labels = [&BEGINNING[..], &HEADER].concat();
        labels.extend([
            (first.len(), "first key"),
            (last.len(), "last key"),
            (PAGE - 136 - first.len() - last.len(), "reserved"),
        ]);
        let mut memory = table.memory_for_a_block(&environment).unwrap();
        (0..table.blocks()).for_each(|number| labels.extend(block(&table, number, &mut memory)));
        let before: usize = labels.iter().map(|(length, _)| length).sum();
        labels.extend(index(kind));
        let inside: usize = index(kind).iter().map(|(length, _)| length).sum();
        assert_eq!(before, 4 * PAGE);
        labels.push((table.index_bytes() as usize - inside, "rest of the index"));
        labels.extend([
            (PAGE - table.index_bytes() as usize, "to the end of the page"),
            (64, "filter: line"),
            (PAGE - 64, "to the end of the page"),
        ]);
        golden(name, &render(&disk.files()[&NAME.file()], &labels));
    }
}
