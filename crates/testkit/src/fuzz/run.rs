//! Fuzz bodies for runs of the hash engine.

use ecotone_hash::cold::{Block, BlockBuilder, Run};
use ecotone_substrate::{
    limits::PAGE,
    memory::{Component, Memory},
};
use ecotone_sys::chunk::Size;

use super::{NAME, hash, name, number, padded, seal_blocks, sum};
use crate::{
    sim::SimStorage,
    table::{seal_block, seal_header},
};

/// Bytes of a block.
pub const BLOCK: usize = 1024;

/// Parses, searches and checks a block with a right checksum. If it passes the check, every record is found, and the
/// builder makes the same bytes of the records. Returns whether it passes.
///
/// # Panics
/// If a block that passes breaks these rules.
pub fn block(input: &[u8]) -> bool {
    let mut bytes = padded(input, BLOCK);
    seal_block(NAME.place(0), &mut bytes);
    let Ok(block) = Block::parse(&bytes, NAME.place(0)) else { return false };
    let wanted = input.get(..20).unwrap_or(input);
    let _ = block.find(hash(wanted), wanted);
    assert_eq!(block.entries().count(), block.len());
    let passes = block.check(&hash).is_ok();
    if passes {
        rebuild(&block, &bytes);
    }
    passes
}

fn rebuild(block: &Block<'_>, bytes: &[u8]) {
    let mut builder = BlockBuilder::new(&Memory::new(4 << 20), bytes.len()).expect("there is memory for a frame");
    for entry in block.entries() {
        let entry = entry.expect("a checked block has whole records");
        assert_eq!(block.find(hash(entry.key), entry.key), Ok(Some(entry)));
        assert!(builder.push(hash(entry.key), entry.key, entry.value));
    }
    builder
        .finish(NAME.place(0), |built| assert!(built == bytes, "the builder makes another block of the same records"));
}

/// Opens, searches and checks a run whose number of pages is taken modulo a limit. The checksums are right wherever the
/// header leads. Returns whether the run passes the check.
///
/// # Panics
/// If the run passes and breaks the rules of a run.
pub fn run(pages: usize, input: &[u8]) -> bool {
    let mut bytes = padded(input, (pages % 8 + 2) * PAGE);
    seal(&mut bytes);
    let disk = SimStorage::new(1);
    disk.put(NAME.file(), &bytes);
    let environment = disk.environment(NAME.database, 4 << 20);
    let Ok(run) = Run::open(&environment, NAME) else { return false };
    let mut frame =
        environment.memory.lease_essential(Component::Frames, Size::Frame).expect("there is memory for a frame");
    let mut value = Vec::new();
    for key in input.chunks(5) {
        let _ = run.find(hash(key), key, &mut frame, &mut value);
    }
    let _ = run.tags(&environment);
    let passes = run.check(&environment, &hash).is_ok();
    assert!(!passes || run.records() >= u64::from(run.blocks()));
    passes
}

/// Seals blocks, fences and tags where the header says, then the header, which gets its own name.
fn seal(bytes: &mut [u8]) {
    let (fences, tags) = (number::<8>(bytes, 104), number::<8>(bytes, 112));
    // Sizes that are possible stay as they are.
    bytes[65] = 10 + (bytes[65] % 3 + 2) % 3;
    seal_blocks(bytes, PAGE..fences, 1 << bytes[65], 0);
    // Tags of version 1 have one checksum; later tags have one in each page.
    let has_one = bytes[128].is_multiple_of(2);
    bytes[128] = u8::from(!has_one);
    let whole = if has_one { sum(bytes, tags, bytes.len()) } else { [0; 4] };
    if !has_one {
        let (blocks, end) = (number::<4>(bytes, 68), bytes.len());
        seal_blocks(bytes, tags..end, PAGE, blocks as u32);
    }
    let sums = [sum(bytes, fences, tags), whole].concat();
    bytes[120..128].copy_from_slice(&sums);
    name(bytes, b"ECOhsrun");
    seal_header(NAME.file(), bytes);
}
