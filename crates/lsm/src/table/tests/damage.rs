//! Flipped bytes and cut files: an error that names the place, or the right answer.

use ecotone_substrate::limits::PAGE;
use ecotone_testkit::table::{Damaged, seal_block, seal_header};
use rand::SeedableRng;

use crate::table::tests::*;

/// A table on a disk, and its records. Four pages follow the header: two blocks, the index, the filter.
fn original(kind: IndexKind) -> (SimStorage, Records) {
    let mut random = SmallRng::seed_from_u64(5);
    let disk = SimStorage::new(1);
    let records = sized(&mut random, 60, 100);
    let table = write(&environment(&disk), NAME, options(kind, 4096), &records).unwrap().unwrap();
    assert_eq!((table.blocks(), table.file_bytes()), (2, 5 * PAGE as u64));
    (disk, records)
}

/// Opens the table and reads every record. Asserts that every answer is right; gives the first error.
fn exercise(environment: &Environment, records: &Records) -> Result<()> {
    let table = Arc::new(Table::open(environment, NAME)?);
    let index = index_of(&table, environment)?;
    let mut memory = table.memory_for_a_block(environment)?;
    let mut first = Ok(());
    for (key, value) in records {
        match ask(&table, &index, key, &mut memory) {
            Ok(answer) => assert_eq!(answer.as_ref(), Some(value)),
            Err(error) => first = first.and(Err(error)),
        }
    }
    first.and(table.filter(environment, &frames(environment)).map(drop)).and_then(|()| table.check(environment, &hash))
}

#[test]
fn every_flipped_byte_is_noticed_where_it_is() {
    // Every byte of the header, and one in five of the bytes that only checksums protect.
    for kind in [IndexKind::Linear, IndexKind::Plr, IndexKind::Single] {
        let (disk, records) = original(kind);
        let environment = environment(&disk);
        let read = || exercise(&environment, &records);
        let damaged = Damaged::new(&disk, NAME, &read);
        let header = if kind == IndexKind::Linear { PAGE } else { 0 };
        for offset in (0..header).chain((header..damaged.whole().len()).step_by(5)) {
            let error = damaged.flip(offset).unwrap_err();
            let place = damaged.place(&error).unwrap_or_else(|| panic!("byte {offset}: {error}"));
            assert_eq!(place / PAGE as u64, (offset / PAGE) as u64, "byte {offset}: {error}");
        }
    }
}

#[test]
fn every_flipped_byte_of_a_partition_is_noticed_where_it_is() {
    let (disk, records) = (SimStorage::new(1), long(12));
    let environment = environment(&disk);
    write(&environment, NAME, options(IndexKind::Partitioned, 4096), &records).unwrap();
    let read = || exercise(&environment, &records);
    let damaged = Damaged::new(&disk, NAME, &read);
    // The header, six blocks, two partitions, the separators between partitions, the filter.
    assert_eq!(damaged.whole().len(), 11 * PAGE);
    for offset in (7 * PAGE..10 * PAGE).step_by(3) {
        let error = damaged.flip(offset).unwrap_err();
        let place = damaged.place(&error).unwrap_or_else(|| panic!("byte {offset}: {error}"));
        assert_eq!(place / PAGE as u64, (offset / PAGE) as u64, "byte {offset}: {error}");
    }
    damaged.a_header_that_makes_no_sense_is_noticed(136, |offset| matches!(offset, 66..68 | 96..112));
}

#[test]
fn a_file_of_another_length_or_another_file_is_noticed() {
    let (disk, records) = original(IndexKind::Linear);
    let environment = environment(&disk);
    let read = || exercise(&environment, &records);
    let damaged = Damaged::new(&disk, NAME, &read);
    damaged.every_other_length_is_noticed();
    for other in [FileIdentity { database: 8, ..NAME }, FileIdentity { birth: 42, ..NAME }] {
        assert_eq!(damaged.place(&Table::open(&environment, other).unwrap_err()), Some(64));
    }
}

#[test]
fn a_header_with_a_right_checksum_is_believed_only_where_it_makes_sense() {
    let (disk, records) = original(IndexKind::Linear);
    let environment = environment(&disk);
    let read = || exercise(&environment, &records);
    let damaged = Damaged::new(&disk, NAME, &read);
    let keys = damaged.whole()[136..PAGE].iter().rposition(|&byte| byte != 0).expect("there are keys") + 1;
    // Filter bits that give the same number of lines, and sequences that are plausible.
    damaged.a_header_that_makes_no_sense_is_noticed(136 + keys + 8, |offset| matches!(offset, 66..68 | 96..112));
}

/// Callers add up the statistics of headers.
#[test]
fn a_header_that_says_more_than_blocks_can_have_is_refused() {
    let (disk, _) = original(IndexKind::Linear);
    let whole = disk.files()[&NAME.file()].clone();
    for (at, what) in [(72, "more records"), (88, "longer than")] {
        let mut bytes = whole.clone();
        bytes[at + 6] = 1;
        seal_header(NAME.file(), &mut bytes);
        disk.put(NAME.file(), &bytes);
        let error = Table::open(&environment(&disk), NAME).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(what), "{error}");
    }
}

/// A changed block that passes the check equals what the builder makes of its records.
#[test]
#[ignore = "long"]
fn a_changed_block_with_a_right_checksum_fails_the_check_or_is_a_whole_one() {
    let (disk, records) = original(IndexKind::Linear);
    let at = NAME.place(0);
    let whole = disk.files()[&NAME.file()][PAGE..][..PAGE].to_vec();
    let (memory, mut passed) = (Memory::new(16 << 20), 0);
    for (offset, bit) in (4..PAGE).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1 << bit;
        seal_block(at, &mut bytes);
        let Ok(block) = Block::parse(&bytes, at) else { continue };
        if !(200..=PAGE - 16).contains(&offset) {
            records.keys().for_each(|key| _ = block.find(key));
        }
        if block.check().is_ok() {
            let mut builder = BlockBuilder::new(&memory, PAGE, Compression::None).unwrap();
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
