//! Flipped bytes and cut files: an error that names the place, or the right answer.

use ecotone_substrate::{Error, limits::PAGE, storage::FileId};
use ecotone_sys::checksum::crc32c;
use rand::SeedableRng;

use super::*;

fn file() -> FileId {
    NAME.file()
}

/// A table on a disk, and what is in it. Four pages follow the header: two of blocks, index, filter.
fn original(kind: Kind) -> (SimStorage, Records) {
    let mut random = SmallRng::seed_from_u64(5);
    let disk = SimStorage::new(1);
    let records = sized(&mut random, 60, 100);
    let table = write(&environment(&disk), NAME, options(kind, 4096), &records).unwrap().unwrap();
    assert_eq!((table.blocks(), table.file_bytes()), (2, 5 * PAGE as u64));
    (disk, records)
}

/// The place that an error names.
fn place(error: &Error) -> Option<u64> {
    match error {
        Error::Corruption { file: name, offset, .. } if *name == file().to_string() => Some(*offset),
        _ => None,
    }
}

/// Opens and asks for everything. Every answer is right; the first error.
fn exercise(environment: &Environment, records: &Records) -> Result<()> {
    let table = Table::open(environment, NAME)?;
    let index = table.index(environment)?;
    let mut memory = table.memory_for_a_block(environment)?;
    let mut first = Ok(());
    for (key, value) in records {
        match ask(&table, &index, key, &mut memory) {
            Ok(answer) => assert_eq!(answer.as_ref(), Some(value)),
            Err(error) => first = first.and(Err(error)),
        }
    }
    first.and(table.filter(environment).map(drop)).and_then(|()| table.check(environment, &hash))
}

#[test]
fn every_flipped_byte_is_noticed_where_it_is() {
    for (kind, step) in [(Kind::Linear, 1), (Kind::Plr, 5), (Kind::Single, 5)] {
        let (disk, records) = original(kind);
        let environment = environment(&disk);
        for offset in (0..disk.files()[&file()].len()).step_by(step) {
            disk.flip_bit(file(), offset as u64, offset as u32 % 8);
            let error = exercise(&environment, &records).unwrap_err();
            let place = place(&error).unwrap_or_else(|| panic!("byte {offset}: {error}"));
            assert_eq!(place / PAGE as u64, (offset / PAGE) as u64, "byte {offset}: {error}");
            disk.flip_bit(file(), offset as u64, offset as u32 % 8);
        }
        exercise(&environment, &records).unwrap();
    }
}

#[test]
fn a_file_of_another_length_or_another_file_is_noticed() {
    let (disk, records) = original(Kind::Linear);
    let environment = environment(&disk);
    let whole = disk.files()[&file()].clone();
    for length in [0, 1, 4095, 4096, 4097, 8192, 16_384, whole.len() - 1] {
        disk.truncate(file(), length as u64);
        assert!(place(&exercise(&environment, &records).unwrap_err()).is_some(), "cut at {length}");
        disk.put(file(), &whole);
    }
    disk.put(file(), &[&whole[..], &[0; PAGE]].concat());
    assert!(place(&exercise(&environment, &records).unwrap_err()).is_some());
    disk.put(file(), &whole);
    for other in [Name { database: 8, ..NAME }, Name { birth: 42, ..NAME }] {
        assert_eq!(place(&Table::open(&environment, other).unwrap_err()), Some(64));
    }
}

/// Puts a right checksum into the header.
fn seal_header(bytes: &mut [u8]) {
    let sum = crc32c(crc32c(0, &file().identity().to_le_bytes()), &bytes[4..PAGE]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_header_with_a_right_checksum_is_believed_only_where_it_makes_sense() {
    let (disk, records) = original(Kind::Linear);
    let (environment, whole) = (environment(&disk), disk.files()[&file()].clone());
    let keys = whole[136..PAGE].iter().rposition(|&byte| byte != 0).expect("there are keys") + 1;
    for (offset, bit) in (4..136 + keys + 8).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1 << bit;
        seal_header(&mut bytes);
        disk.put(file(), &bytes);
        let done = exercise(&environment, &records);
        match offset {
            // A later version, features that may be ignored, features that may not.
            12..16 | 24..40 => {
                assert!(matches!(done, Err(Error::NewerFormat { .. } | Error::Corruption { .. })), "{offset}: {done:?}")
            }
            16..24 => assert!(done.is_ok()),
            // Bits of the filter that make as many lines, and sequences that could be.
            66..68 | 96..112 if done.is_ok() => {}
            _ => assert!(done.as_ref().is_err_and(|error| place(error).is_some()), "byte {offset}: {done:?}"),
        }
    }
}

/// A block that passes the check is what the builder makes of its records, whatever was changed.
#[test]
fn a_changed_block_with_a_right_checksum_fails_the_check_or_is_a_whole_one() {
    let (disk, records) = original(Kind::Linear);
    let at = NAME.place(0);
    let whole = disk.files()[&file()][PAGE..][..PAGE].to_vec();
    let (memory, mut passed) = (Memory::new(16 << 20), 0);
    for (offset, bit) in (4..PAGE).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1 << bit;
        let sum = at.checksum(&bytes);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        let Ok(block) = Block::parse(&bytes, at) else { continue };
        if !(200..=PAGE - 16).contains(&offset) {
            records.keys().for_each(|key| _ = block.find(key));
        }
        if block.check().is_ok() {
            let mut builder = BlockBuilder::new(&memory, PAGE).unwrap();
            block
                .each(|key, value| {
                    assert!(builder.push(key, value));
                    Ok(())
                })
                .unwrap();
            builder.finish(at, |built| assert_eq!(built, bytes));
            passed += 1;
        }
    }
    assert!((1..8 * PAGE).contains(&passed), "a value may be any");
}
