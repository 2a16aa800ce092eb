//! Computes the checksums of changed files anew, for every format, as `docs/format/` says. So a change gets past the
//! checksums.

use ecotone::internal::substrate::storage::FileId;
use ecotone_sys::checksum::crc32c;

const PAGE: usize = 4096;
const SECTOR: usize = 512;
const FRAME: usize = 9;

/// Writes right checksums into all structures of a file that are long enough to have one.
pub(super) fn seal(file: FileId, bytes: &mut [u8]) {
    match file {
        FileId::Manifest(_) => manifest(file, bytes),
        FileId::Log(_) => log(bytes),
        FileId::Double(_) => double(bytes),
        FileId::Segment { .. } => segment(file, bytes),
        FileId::Table { .. } if bytes.get(4..12) == Some(&b"ECOlstab"[..]) => table(file, bytes),
        FileId::Table { .. } => run(file, bytes),
        _ => pages(file, bytes),
    }
}

fn put(bytes: &mut [u8], offset: usize, sum: u32) {
    if let Some(place) = bytes.get_mut(offset..offset + 4) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn manifest(file: FileId, bytes: &mut [u8]) {
    let seed = crc32c(0, &file.identity().to_le_bytes());
    let header = crc32c(seed, bytes.get(..56).unwrap_or_default());
    put(bytes, 56, header);
    let end = 60 + u32_at(bytes, 12).unwrap_or(0) as usize;
    let whole = crc32c(seed, bytes.get(..end).unwrap_or_default());
    put(bytes, end, whole);
}

fn double(bytes: &mut [u8]) {
    let total = u32_at(bytes, 24).unwrap_or(0) as usize;
    let sum = crc32c(crc32c(0, bytes.get(..12).unwrap_or_default()), bytes.get(16..total).unwrap_or_default());
    put(bytes, 12, sum);
}

/// The first page of a file that is written once, and the sum with which those of its other pages begin, which have its
/// birth.
fn named(file: FileId, bytes: &mut [u8]) -> u32 {
    let seed = crc32c(0, &file.identity().to_le_bytes());
    let sum = crc32c(seed, bytes.get(4..PAGE).unwrap_or_default());
    put(bytes, 0, sum);
    crc32c(seed, bytes.get(56..64).unwrap_or_default())
}

fn segment(file: FileId, bytes: &mut [u8]) {
    let seed = named(file, bytes);
    let pages = bytes.chunks_exact_mut(PAGE).skip(1);
    pages.filter(|page| page.iter().any(|&byte| byte != 0)).for_each(|page| put(page, 0, crc32c(seed, &page[4..])));
}

/// Blocks, fences and tags of a run, as its header says where they are, then the header.
fn run(file: FileId, bytes: &mut [u8]) {
    let place = |bytes: &[u8], offset| {
        usize::try_from(u64_at(bytes, offset).unwrap_or(0)).unwrap_or(0).clamp(PAGE, bytes.len().max(PAGE))
    };
    let (fences, tags) = (place(bytes, 104), place(bytes, 112));
    let sum = |part: Option<&[u8]>| crc32c(0, part.unwrap_or_default());
    let (of_fences, of_tags) = (sum(bytes.get(fences..tags)), sum(bytes.get(tags..)));
    // A base has no tags, and no checksum of them. Since version 2 each page of tags has its own.
    let is_paged = bytes.get(128) == Some(&1);
    let of_tags = if is_paged || bytes.get(64) == Some(&2) { 0 } else { of_tags };
    put(bytes, 120, of_fences);
    put(bytes, 124, of_tags);
    let size = 1 << bytes.get(65).copied().unwrap_or(0).clamp(10, 12);
    let (seed, count) = (named(file, bytes), u32_at(bytes, 68).unwrap_or(0));
    blocks(bytes.get_mut(PAGE..fences).unwrap_or_default(), size, seed, 0);
    if is_paged {
        blocks(bytes.get_mut(tags..).unwrap_or_default(), PAGE, seed, count);
    }
}

/// Index and filter of a table, as its header says where they are, then the header, then blocks and what the index has
/// between them and itself.
fn table(file: FileId, bytes: &mut [u8]) {
    let (size, end) = (1 << bytes.get(64).copied().unwrap_or(0).clamp(12, 14), bytes.len());
    let number = |offset| u32_at(bytes, offset).unwrap_or(0);
    let behind = |from: usize, count: u32, size: usize| from.saturating_add(count as usize * size).min(end);
    let (count, lines) = (number(68), number(120));
    let partitions = behind(PAGE, count, size);
    let index = behind(partitions, number(112), PAGE);
    let filter = behind(index, number(116).div_ceil(PAGE as u32), PAGE);
    let sum = |part: Option<&[u8]>| crc32c(0, part.unwrap_or_default());
    let (of_index, of_filter) = (sum(bytes.get(index..filter)), sum(bytes.get(filter..)));
    put(bytes, 124, of_index);
    put(bytes, 128, if lines == 0 { 0 } else { of_filter });
    let seed = named(file, bytes);
    blocks(bytes.get_mut(PAGE..partitions).unwrap_or_default(), size, seed, 0);
    blocks(bytes.get_mut(partitions..index).unwrap_or_default(), PAGE, seed, count);
}

/// Blocks of so many bytes, counted from a number on; one of zeros was never written.
fn blocks(bytes: &mut [u8], size: usize, seed: u32, first: u32) {
    for (number, block) in
        (0_u32..).zip(bytes.chunks_mut(size)).filter(|(_, block)| block.iter().any(|&byte| byte != 0))
    {
        let seed = crc32c(seed, &first.wrapping_add(number).to_le_bytes());
        let sum = crc32c(seed, block.get(4..).unwrap_or_default());
        put(block, 0, sum);
    }
}

/// The header page has its own form; a page of zeros was never written.
fn pages(file: FileId, bytes: &mut [u8]) {
    let seed = crc32c(0, &file.identity().to_le_bytes());
    for (number, page) in
        (0_u32..).zip(bytes.chunks_exact_mut(PAGE)).filter(|(_, page)| page.iter().any(|&byte| byte != 0))
    {
        let seed = if number == 0 { seed } else { crc32c(seed, &number.to_le_bytes()) };
        let sum = crc32c(seed, &page[4..]);
        put(page, 0, sum);
    }
}

/// The header, and the records as far as their lengths lead.
fn log(bytes: &mut [u8]) {
    let header = crc32c(0, bytes.get(..SECTOR - 4).unwrap_or_default());
    put(bytes, SECTOR - 4, header);
    let fields = |offset| u64_at(bytes, offset);
    let (Some(database), Some(start), Some(first), Some(incarnation)) =
        (fields(16), fields(24), fields(32), fields(40))
    else {
        return;
    };
    let seed = crc32c(crc32c(0, &database.to_le_bytes()), &incarnation.to_le_bytes());
    let mut position = first;
    while let Some(length) = record(bytes, seed, start, position) {
        position += (FRAME + length) as u64;
    }
}

/// Seals the record at `position` and gives the length of its body.
fn record(bytes: &mut [u8], seed: u32, start: u64, position: u64) -> Option<usize> {
    let offset = usize::try_from(position.checked_sub(start)?).ok()?.checked_add(PAGE)?;
    let frame = bytes.get(offset..)?.first_chunk::<FRAME>()?;
    let length = u32_at(frame, 0)?;
    let kind = frame[8];
    let body = bytes.get(offset + FRAME..)?.get(..length as usize)?;
    if *frame == [0; FRAME] {
        return None;
    }
    let sizes = u64::from(length) | (u64::from(crc32c(0, body)) << 32);
    let sum = crc32c(crc32c(crc32c(seed, &position.to_le_bytes()), &sizes.to_le_bytes()), &[kind]);
    put(bytes, offset + 4, sum);
    Some(length as usize)
}
