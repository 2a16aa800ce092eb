//! The bytes of a delta and of a base.

use ecotone_substrate::codec::hex::{golden, render};
use ecotone_testkit::table::BEGINNING;

use super::*;

/// The fields of the header after the common ones.
const HEADER: [(usize, &str); 15] = [
    (1, "kind"),
    (1, "log2 of the block size"),
    (1, "partition bits"),
    (1, "partition"),
    (4, "blocks"),
    (8, "records"),
    (8, "tombstones"),
    (8, "hot log from"),
    (8, "until"),
    (8, "offset of the fences"),
    (8, "offset of the tags"),
    (4, "checksum of the fences"),
    (4, "checksum of all tags, in version 1"),
    (1, "whether each page of tags has its own"),
    (3967, "reserved"),
];

/// The labels of a block.
fn block(run: &Run, number: u32, frame: &mut storage::Block) -> Vec<(usize, &'static str)> {
    let block = run.read(number, frame).unwrap();
    let mut labels =
        vec![(4, "checksum of the block"), (2, "records"), (2, "heap start"), (8, "hash of the first record")];
    labels.extend([(2, "slot: bits of the hash"), (2, "offset")].repeat(block.len()));
    let entries: Vec<_> = block.entries().map(|entry| entry.unwrap()).collect();
    let bytes = |entry: &Entry<'_>| record_bytes(entry.key.len(), entry.value.map_or(0, <[u8]>::len)) - 4;
    labels.push((1024 - 16 - 4 * block.len() - entries.iter().map(bytes).sum::<usize>(), "gap"));
    for entry in entries.iter().rev() {
        let (key, value) = (entry.key.len(), entry.value.map_or(0, <[u8]>::len));
        labels.extend([
            (1, "record: kind"),
            (bytes(entry) - 1 - key - value, "lengths"),
            (key, "key"),
            (value, "value"),
        ]);
    }
    labels
}

fn check(name: &str, kind: RunKind, records: &Records) {
    let disk = SimStorage::new(1);
    let environment = environment(&disk);
    let (run, tags) = write(&environment, NAME, kind, 1024, records).unwrap().unwrap();
    let mut labels = [&BEGINNING[..], &HEADER].concat();
    let mut frame = frame(&environment);
    (0..run.blocks()).for_each(|number| labels.extend(block(&run, number, &mut frame)));
    labels.push((4096 - 1024 * run.blocks() as usize, "to the end of the page"));
    labels.extend([
        (8, "fences: hash of the first record"),
        (1, "shift"),
        (7, "zero"),
        (2 * run.blocks() as usize, "numbers"),
    ]);
    labels.extend([(2 * (64 - run.blocks() as usize), "no blocks"), (4096 - 144, "to the end of the page")]);
    let tags = tags.of(HashRange::ALL).count();
    if tags > 0 {
        labels.push((4, "checksum of the tags"));
        labels.extend((0..tags).map(|_| (5, "tag")));
        labels.push((4096 - 4 - 5 * tags, "to the end of the page"));
    }
    golden(name, &render(&disk.files()[&NAME.file()], &labels));
}

#[test]
fn a_delta_and_a_base() {
    let record = |key: &[u8], value: Option<Vec<u8>>| ((hash(key), key.to_vec()), value);
    let delta = [
        record(b"Utrecht", Some(b"52.09 5.12".to_vec())),
        record(b"Zwolle", None),
        record(b"Almelo", Some(Vec::new())),
        record(b"a longer value", Some(vec![7; 600])),
        record(b"another one", Some(vec![8; 600])),
    ];
    check("hash-delta", DELTA, &delta.into_iter().collect());
    let lower = (b'a'..=b'z').find(|byte| hash(&[*byte]) >> 62 == 0).expect("one of 26 is there");
    check(
        "hash-base",
        RunKind::Base(HashRange::new(2, 0).unwrap()),
        &[record(&[lower], Some(b"value".to_vec()))].into(),
    );
}
