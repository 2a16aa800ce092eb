//! The bytes of a log segment, as documented in `docs/format/log.md`.

use ecotone_substrate::{
    codec::hex,
    storage::FileId,
    wal::{BatchEncoder, Durability, RecordKind, ReservationKind, SegmentHeader, Successor},
};

use crate::fixture::*;

#[test]
fn segment() {
    let (fixture, wal) = fresh();
    let mut body = Vec::new();
    let mut encoder = BatchEncoder::new(&mut body, 2);
    encoder.push(1, b"key", Some(b"a value of twenty-six bytes"));
    encoder.push(300, b"gone", None);
    let placed = wal.append(wal.reserve(ReservationKind::Write, body.len()).unwrap(), RecordKind::Batch, &body, |_| ());
    wal.commit(placed.end, Durability::Sync).unwrap();
    put(&wal, b"change", Durability::Sync).unwrap();
    let bytes =
        fixture.disk.files().into_iter().find(|(id, bytes)| matches!(id, FileId::Log(_)) && bytes[0] != 0).unwrap().1;
    let labels = [
        (8, "magic"),
        (4, "format version"),
        (4, "zero"),
        (8, "database"),
        (8, "start"),
        (8, "first record"),
        (8, "incarnation"),
        (8, "synced"),
        (8, "bytes of the segment"),
        (444, "zeros"),
        (4, "checksum of the header"),
        (512, "no successor"),
        (3072, "zeros"),
        (4, "length of the body"),
        (4, "checksum of the record"),
        (1, "kind: batch"),
        (1, "operations"),
        (1, "kind: value"),
        (1, "keyspace"),
        (4, "key"),
        (28, "value"),
        (1, "kind: tombstone"),
        (2, "keyspace"),
        (5, "key"),
        (12, "padding to 32 bytes an operation"),
        (4, "length of the body"),
        (4, "checksum of the record"),
        (1, "kind: mark"),
        (8, "synced"),
        (4, "length of the body"),
        (4, "checksum of the record"),
        (1, "kind: structure"),
        (1, "keyspace"),
        (6, "the engine's own bytes"),
    ];
    hex::golden("log-segment", &hex::render(&bytes[..5120], &labels));
}

#[test]
fn successor() {
    let header = SegmentHeader {
        database: DATABASE,
        start: 60_000,
        first_record: 60_500,
        incarnation: 3,
        synced: 1,
        bytes: 64 << 10,
    };
    let sector = Successor { file: 4, start: 121_440, incarnation: 3 }.encode(&header);
    let labels = [
        (8, "magic"),
        (8, "start of this segment"),
        (8, "its incarnation"),
        (4, "number of the successor's file"),
        (4, "zero"),
        (8, "position at which it begins"),
        (8, "its incarnation"),
        (460, "zeros"),
        (4, "checksum"),
    ];
    hex::golden("log-successor", &hex::render(&sector, &labels));
}
