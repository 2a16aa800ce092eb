//! Fuzz bodies for the hot log of the hash engine, as it is in files.

use ecotone_hash::log::{Address, Page, PageLocation, SEGMENT_BYTES, Segment, Stored};
use ecotone_substrate::{
    codec::Malformed,
    limits::{MAX_RECORD, PAGE},
    table::FileRole,
};
use ecotone_sys::checksum::crc32c;

use super::{NAME, name, number, padded};
use crate::{sim::SimStorage, table::seal_header};

/// Where the records of a page begin.
const HEADER: u64 = 16;
/// Bytes of log in the smallest segment.
pub(super) const SEGMENT: u64 = *SEGMENT_BYTES.start();

fn place(address: Address) -> PageLocation {
    PageLocation { file: FileRole::Segment.file(NAME).identity(), birth: NAME.birth, address }
}

/// Parses the first page of a log, with a right checksum, and walks its records. If all records are whole, they lie
/// back to back and each is found at its address. Returns whether all are whole.
///
/// # Panics
/// If a whole page breaks these rules.
pub fn page(input: &[u8]) -> bool {
    let mut bytes = padded(input, PAGE);
    seal_page(Address::FIRST, &mut bytes);
    let Ok(page) = Page::parse(&bytes, place(Address::FIRST)) else { return false };
    let _ = page.record(Address::FIRST.plus(number::<2>(&bytes, PAGE - 2) as u64 % PAGE as u64));
    whole(Address::FIRST, page)
}

fn whole(address: Address, page: Page<'_>) -> bool {
    let Ok(records) = page.records().collect::<Result<Vec<(Address, Stored<'_>)>, Malformed>>() else { return false };
    let mut end = address.plus(HEADER);
    for (begin, stored) in &records {
        assert_eq!((*begin, page.record(*begin)), (end, Ok(*stored)));
        assert!(!stored.key.is_empty() && stored.key.len() + stored.value.len() <= MAX_RECORD);
        end = begin.plus(stored.bytes());
    }
    assert_eq!(end, address.plus(page.used()));
    true
}

/// Opens a segment of `pages % 8 + 1` pages whose checksums are right, and walks all of its pages. Returns how many of
/// them are whole.
///
/// # Panics
/// If a whole page breaks the rules of [`page`].
pub fn segment(pages: usize, input: &[u8]) -> Option<usize> {
    let pages = pages % 8 + 1;
    let mut bytes = padded(input, PAGE + SEGMENT as usize);
    name(&mut bytes, b"ECOhslog");
    seal_header(FileRole::Segment.file(NAME), &mut bytes);
    for (at, page) in (Address::FIRST.get()..).step_by(PAGE).zip(bytes[PAGE..].chunks_mut(PAGE).take(pages)) {
        seal_page(Address::new(at), page);
    }
    let disk = SimStorage::new(1);
    disk.put(FileRole::Segment.file(NAME), &bytes);
    let environment = disk.environment(NAME.database, 4 << 20);
    let segment = Segment::open(&environment, NAME, Address::FIRST, SEGMENT).ok()?;
    let page = |at: usize| {
        let (address, bytes) = (Address::new((at * PAGE) as u64), &bytes[at * PAGE..][..PAGE]);
        segment.parse(address, bytes).is_ok_and(|page| whole(address, page))
    };
    Some((1..=pages).filter(|at| page(*at)).count())
}

fn seal_page(address: Address, page: &mut [u8]) {
    let PageLocation { file, birth, .. } = place(address);
    let sum = crc32c(crc32c(crc32c(0, &file.to_le_bytes()), &birth.to_le_bytes()), &page[4..]);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}
