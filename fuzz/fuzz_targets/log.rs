//! Log records, and headers of segments with a right checksum. The walk over a log is a part of the target `image`.
#![no_main]

use ecotone_fuzz::{bounded, seal_file};
use ecotone_substrate::{
    limits::{MAX_KEY, MAX_RECORD, SECTOR},
    storage::FileId,
    wal::{Location, Record, SegmentHeader},
};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId::Log(1);

fuzz_target!(|input: &[u8]| {
    let Some((&kind, body)) = input.split_first() else { return };
    if kind == 0 {
        header(body);
    } else {
        bounded(input.len(), || record(kind, body));
    }
});

fn header(input: &[u8]) {
    let mut sector = [0; SECTOR];
    sector.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    let _ = SegmentHeader::decode(&sector, FILE);
    seal_file(FILE, &mut sector);
    if let Ok(Some(header)) = SegmentHeader::decode(&sector, FILE) {
        assert_eq!(SegmentHeader::decode(&header.encode(), FILE).ok().flatten(), Some(header));
    }
}

fn record(kind: u8, body: &[u8]) {
    match Record::decode(kind, body, Location { file: FILE, offset: 4096 }) {
        Ok(Record::Batch(batch)) => batch.map_while(Result::ok).for_each(|(_, key, value)| {
            assert!(key.len() <= MAX_KEY && value.is_none_or(|value| value.len() <= MAX_RECORD));
        }),
        Ok(Record::Structure { body: rest, .. }) => assert!(rest.len() < body.len()),
        Ok(Record::Synced(_)) => assert_eq!(body.len(), 8),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
