//! Flipped bytes and truncated files: each leads to an error that names the place, or to the right answer.

use ecotone_substrate::limits::SECTOR;
use ecotone_testkit::table::{Damaged, seal_block};
use rand::SeedableRng;

use super::*;

const PAGE: usize = 4096;

/// A run on a disk, and its records. Three pages follow the header: blocks, fences, tags.
fn original(kind: RunKind) -> (SimStorage, Records) {
    let mut random = SmallRng::seed_from_u64(5);
    let disk = SimStorage::new(1);
    let records: Records = (0..24)
        .map(|number| {
            let (key, value) = sized(&mut random, 100, kind == DELTA && number % 8 == 0);
            ((hash(&key), key), value)
        })
        .collect();
    let (run, _) = write(&environment(&disk), NAME, kind, 1024, &records).unwrap().unwrap();
    assert_eq!(run.blocks(), 3);
    (disk, records)
}

/// Opens the run and reads everything. Every answer is right; returns the first error.
fn exercise(environment: &Environment, records: &Records) -> Result<()> {
    let run = Run::open(environment, NAME)?;
    let (mut frame, mut first) = (frame(environment), Ok(()));
    for ((hash, key), value) in records {
        match ask(&run, *hash, key, &mut frame) {
            Ok(answer) => assert_eq!(answer.as_ref(), Some(value)),
            Err(error) => first = first.and(Err(error)),
        }
    }
    let tags = run.tags(environment);
    first.and(tags.map(drop)).and_then(|()| run.check(environment, &hash))
}

#[test]
fn every_flipped_byte_is_noticed_where_it_is_or_is_in_no_block() {
    for (kind, step) in [(DELTA, 1), (RunKind::Base(HashRange::ALL), 7)] {
        let (disk, records) = original(kind);
        let environment = environment(&disk);
        let read = || exercise(&environment, &records);
        let damaged = Damaged::new(&disk, NAME, &read);
        for offset in (0..damaged.whole().len()).step_by(step) {
            let Err(error) = damaged.flip(offset) else {
                assert!((PAGE + 3 * 1024..2 * PAGE).contains(&offset), "byte {offset} was not noticed");
                continue;
            };
            let (unit, begin) = if (PAGE..2 * PAGE).contains(&offset) { (1024, PAGE) } else { (PAGE, 0) };
            let block = (begin + (offset - begin) / unit * unit) as u64;
            let place = damaged.place(&error).unwrap_or_else(|| panic!("byte {offset}: {error}"));
            assert!((block..block + unit as u64).contains(&place), "byte {offset}: {error}");
        }
    }
}

/// Any sector of a run was not written, or holds the bytes of another page: no answer is wrong, and the error names the
/// place.
#[test]
fn trap_06_every_sector_of_a_run_counts() {
    for kind in [DELTA, RunKind::Base(HashRange::ALL)] {
        let (disk, records) = original(kind);
        let environment = environment(&disk);
        let read = || exercise(&environment, &records);
        let damaged = Damaged::new(&disk, NAME, &read);
        let whole = damaged.whole();
        for at in (0..whole.len()).step_by(SECTOR) {
            let part = &whole[at..][..SECTOR];
            for other in [&[0; SECTOR][..], &whole[(at + PAGE) % whole.len()..][..SECTOR]] {
                disk.patch(NAME.file(), at as u64, other);
                match read() {
                    Ok(()) => assert!(other == part || (PAGE + 3 * 1024..2 * PAGE).contains(&at), "the sector at {at}"),
                    Err(error) => assert!(damaged.place(&error).is_some(), "the sector at {at}: {error}"),
                }
            }
            disk.patch(NAME.file(), at as u64, part);
        }
        read().unwrap();
    }
}

#[test]
fn a_file_of_another_length_or_another_file_is_noticed() {
    let (disk, records) = original(DELTA);
    let environment = environment(&disk);
    let read = || exercise(&environment, &records);
    let damaged = Damaged::new(&disk, NAME, &read);
    damaged.every_other_length_is_noticed();
    for other in [FileIdentity { database: 8, ..NAME }, FileIdentity { birth: 42, ..NAME }] {
        assert_eq!(damaged.place(&Run::open(&environment, other).unwrap_err()), Some(64));
    }
    let moved = FileIdentity { number: 10, ..NAME };
    disk.put(moved.file(), damaged.whole());
    assert!(Run::open(&environment, moved).unwrap_err().to_string().contains("checksum"));
}

#[test]
fn a_header_with_a_right_checksum_is_believed_only_where_it_makes_sense() {
    let (disk, records) = original(DELTA);
    let environment = environment(&disk);
    let read = || exercise(&environment, &records);
    // Possible addresses of the hot log.
    Damaged::new(&disk, NAME, &read).a_header_that_makes_no_sense_is_noticed(136, |offset| (88..104).contains(&offset));
}

/// A block that passes the check equals the block that the builder makes of its records, whatever was changed.
#[test]
fn a_changed_block_with_a_right_checksum_fails_the_check_or_is_a_whole_one() {
    let (disk, records) = original(DELTA);
    let at = NAME.place(0);
    let whole = disk.files()[&NAME.file()][PAGE..][..1024].to_vec();
    let (memory, mut passed) = (Memory::new(16 << 20), 0);
    for (offset, bit) in (4..1024).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1 << bit;
        seal_block(at, &mut bytes);
        let Ok(block) = Block::parse(&bytes, at) else { continue };
        records.keys().for_each(|(hash, key)| _ = block.find(*hash, key));
        if block.check(&hash).is_ok() {
            let mut builder = BlockBuilder::new(&memory, 1024).unwrap();
            let entries: Vec<_> = block.entries().map(|entry| entry.unwrap()).collect();
            assert!(entries.iter().all(|entry| builder.push(hash(entry.key), entry.key, entry.value)));
            builder.finish(at, |built| assert_eq!(built, bytes));
            passed += 1;
        }
    }
    assert!((1..8 * 1024).contains(&passed), "a value may be any");
}

/// The check finds damage that searches do not see: a slot with wrong hash bits, in a delta whose blocks of other
/// partitions may be punched.
#[test]
fn a_slot_that_says_something_else_is_noticed_in_a_part_of_a_delta() {
    let (disk, records) = original(DELTA);
    let environment = environment(&disk);
    let run = Arc::new(Run::open(&environment, NAME).unwrap());
    let hash_range = HashRange::new(1, 1).unwrap();
    let of_hash_range = records.keys().filter(|(hash, _)| hash_range.has(*hash)).count() as u64;
    let tags = run.tags(&environment).unwrap();
    let check = |hash_range| run.check_part(&environment, hash_range, Some(&tags), &hash, &|_, _| true);
    let (number, tombstones) = check(hash_range).unwrap();
    assert!(number == of_hash_range && of_hash_range > 0 && tombstones < number);
    let last = run.blocks() - 1;
    let at = PAGE + last as usize * 1024;
    let mut block = disk.files()[&NAME.file()][at..][..1024].to_vec();
    block[16] ^= 1;
    seal_block(NAME.place(last), &mut block);
    disk.patch(NAME.file(), at as u64, &block);
    let error = check(hash_range).unwrap_err();
    assert!(error.to_string().contains("a hash is not that of its key"), "{error}");
    check(HashRange::new(1, 0).unwrap()).unwrap();
}

/// Wrong tags with a right checksum are found too.
#[test]
fn a_tag_of_another_record_is_noticed_in_a_part_of_a_delta() {
    let (disk, records) = original(DELTA);
    let environment = environment(&disk);
    let run = Run::open(&environment, NAME).unwrap();
    let (mut tags, last) = (Tags::default(), records.len() - 1);
    for (number, (hash, _)) in records.keys().enumerate() {
        tags.push(&environment.memory, hash ^ u64::from(number == last) << 24).unwrap();
    }
    let check = |hash_range| run.check_part(&environment, hash_range, Some(&tags), &hash, &|_, _| true);
    let error = check(HashRange::new(1, 1).unwrap()).unwrap_err();
    assert!(error.to_string().contains("a tag is not that of its record"), "{error}");
    check(HashRange::new(1, 0).unwrap()).unwrap();
}
