//! Areas and pages that repair must leave alone, failures, and the golden area.

use super::*;
use crate::{Error, codec::hex, limits::SECTOR};

/// A written batch of two pages, one in each file. The page in `PAGES` is then torn by hand.
fn torn() -> Fixture {
    let fixture = Fixture::new(2);
    fixture.write(vec![fixture.page_write(PAGES, 1, 0, 4), fixture.page_write(OTHER, 0, 0, 4)]).unwrap();
    tear(&fixture, &content(PAGES, 1, 0));
    fixture
}

/// Overwrites some changed sectors of the page in place with those of `old`.
fn tear(fixture: &Fixture, old: &[u8]) {
    let mut bytes = content(PAGES, 1, 4);
    bytes[..SECTOR].copy_from_slice(&old[..SECTOR]);
    fixture.storage.open(PAGES, Access::Direct).unwrap().write(&bytes, PAGE as u64).unwrap();
    assert_eq!(fixture.in_place(PAGES, 1), None);
}

#[test]
fn a_torn_page_is_made_whole() {
    let mut fixture = torn();
    assert_eq!(fixture.repair().unwrap(), Repaired { pages: 2, repaired: 1 });
    assert_eq!((fixture.in_place(PAGES, 1), fixture.in_place(OTHER, 0)), (Some(4), Some(4)));
    // Both files are synced, since the whole page may be in a cache only.
    assert!(fixture.disk.events().ends_with(&[Event::Sync(PAGES), Event::Sync(OTHER)]));
}

#[test]
fn a_page_that_something_else_damaged_is_left_alone() {
    let mut fixture = torn();
    let unchanged = changed_sectors(&content(PAGES, 1, 0), &content(PAGES, 1, 4)).trailing_ones();
    assert!(unchanged < 8, "the batch left a sector unchanged");
    let file = fixture.storage.open(PAGES, Access::Direct).unwrap();
    let mut bytes = vec![0; PAGE];
    file.read(&mut bytes, PAGE as u64).unwrap();
    bytes[unchanged as usize * SECTOR] ^= 1;
    file.write(&bytes, PAGE as u64).unwrap();
    assert_eq!(fixture.repair().unwrap(), Repaired { pages: 2, repaired: 0 });
    let mut after = vec![0; PAGE];
    file.read(&mut after, PAGE as u64).unwrap();
    assert_eq!(bytes, after);
}

#[test]
fn a_newer_page_in_place_stays() {
    let mut fixture = torn();
    fixture.storage.open(PAGES, Access::Direct).unwrap().write(&content(PAGES, 1, 9), PAGE as u64).unwrap();
    assert_eq!(fixture.repair().unwrap().repaired, 0);
    assert_eq!(fixture.in_place(PAGES, 1), Some(9));
}

#[test]
fn files_that_are_gone_or_short_are_skipped() {
    let mut fixture = torn();
    assert_eq!(fixture.reopen().repair(&mut |_| None).unwrap(), Repaired { pages: 2, repaired: 0 });
    fixture.storage.open(PAGES, Access::Direct).unwrap().set_len(PAGE as u64 + 100).unwrap();
    assert_eq!(fixture.repair().unwrap(), Repaired { pages: 2, repaired: 0 });
}

/// Applies a change to the area. The checksum is corrected if `fixed`.
fn change_area(fixture: &Fixture, fixed: bool, change: impl FnOnce(&mut [u8])) {
    let file = fixture.storage.open(FILE, Access::Direct).unwrap();
    let mut bytes = vec![0; AREA_BYTES];
    file.read(&mut bytes, 0).unwrap();
    change(&mut bytes);
    if fixed {
        let total = u32::from_le_bytes(bytes[24..28].try_into().unwrap()) as usize;
        let sum = ecotone_sys::checksum::crc32c(
            ecotone_sys::checksum::crc32c(0, &bytes[..12]),
            bytes.get(16..total).unwrap_or_default(),
        );
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    file.write(&bytes, 0).unwrap();
}

#[test]
fn an_area_with_a_flipped_bit_is_ignored() {
    let mut next = choices(5);
    for _ in 0..150 {
        let mut fixture = torn();
        let bit = if next().is_multiple_of(2) { next() % 800 } else { next() % (2000 * 8) };
        println!("bit {bit}");
        change_area(&fixture, false, |bytes| bytes[bit as usize / 8] ^= 1 << (bit % 8));
        assert_eq!(fixture.repair().unwrap(), Repaired::default());
    }
}

#[test]
fn a_newer_format_is_refused() {
    let mut fixture = torn();
    change_area(&fixture, true, |bytes| bytes[8] = 2);
    assert!(matches!(fixture.repair(), Err(Error::NewerFormat { found: 2, known: 1, .. })));
}

#[test]
fn forged_areas_do_no_harm() {
    let mut next = choices(6);
    for i in 0..300 {
        let mut fixture = torn();
        change_area(&fixture, true, |bytes| {
            for _ in 0..=next() % 4 {
                bytes[16 + next() as usize % 60] = next() as u8;
            }
        });
        fixture.repair().unwrap();
        assert!(matches!(fixture.in_place(PAGES, 1), None | Some(4)), "forgery {i}");
        assert_eq!(fixture.in_place(OTHER, 0), Some(4), "forgery {i}");
    }
}

#[test]
fn a_failure_poisons_and_a_full_disk_does_not() {
    let fixture = Fixture::new(2);
    for stop in 0..5 {
        fixture.disk.stop_after(Some(stop));
        let writes = vec![fixture.page_write(PAGES, 0, 0, 1), fixture.page_write(PAGES, 1, 0, 1)];
        let error = fixture.write(writes).unwrap_err();
        assert!(matches!((stop, &error), (0, Error::Io { .. }) | (_, Error::Poisoned { .. })), "{error}");
    }
    let disk = Fake::new();
    disk.fill_up();
    let (storage, health): (Arc<dyn Storage>, Arc<Health>) = (disk, Arc::default());
    assert!(DoubleWrite::create(&storage, &fixture.memory, &health).unwrap_err().is_no_space());
    assert!(health.check().is_ok());
}

#[test]
fn golden_area() {
    let fixture = Fixture::new(1);
    fixture.write(vec![fixture.page_write(OTHER, 0, 0, 1)]).unwrap();
    let write = |id, sectors| PageWrite { sectors, ..fixture.page_write(id, 0, 1, 2) };
    fixture.write(vec![write(PAGES, 0b101), write(OTHER, 0b1000_0000)]).unwrap();
    let mut bytes = vec![0; PAGE];
    fixture.storage.open(FILE, Access::Direct).unwrap().read(&mut bytes, 0).unwrap();
    let mut labels = vec![(8, "magic"), (4, "format version"), (4, "checksum"), (8, "batch number"), (4, "total")];
    labels.extend([(4, "entry count"), (8, "reserved")]);
    for _ in 0..2 {
        labels.extend([
            (8, "entry: file identity"),
            (4, "page number"),
            (4, "crc of the page"),
            (1, "changed sectors"),
        ]);
    }
    labels.extend([
        (438, "zeros"),
        (512, "sector 0 of pages.1"),
        (512, "sector 2 of pages.1"),
        (512, "sector 7 of pages.2"),
    ]);
    hex::golden("double-write-area", &hex::render(&bytes, &labels));
}
