//! A block of a run with a right checksum: parsed, searched, checked; what passes the check is a block that the builder would make. And a whole run, whose
//! checksums are put right wherever its header leads: opened, searched, checked. The first byte says which, and for a run how many blocks it has.
#![no_main]

use std::sync::Arc;

use ecotone_engines::hash::cold::{Block, BlockBuilder, Name, Place, Run};
use ecotone_fuzz::bounded;
use ecotone_substrate::{environment::Environment, health::Health, limits::PAGE, memory::{Component, Memory}, scheduler::Scheduler};
use ecotone_sys::{checksum::crc32c, chunk::Size};
use ecotone_testkit::sim::SimStorage;
use libfuzzer_sys::fuzz_target;

const NAME: Name = Name { database: 7, keyspace: 3, number: 9, birth: 41 };

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    if first == 0 { block(rest) } else { run(usize::from(first), rest) }
});

/// Not the product's hash, which any function may take the place of.
fn hash(key: &[u8]) -> u64 {
    u64::from(crc32c(0, key)) << 32 | u64::from(crc32c(1, key))
}

fn place(block: u32) -> Place {
    Place { file: NAME.file().identity(), birth: NAME.birth, block }
}

fn block(input: &[u8]) {
    let mut bytes = [0; 1024];
    bytes.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    seal_block(&mut bytes, 0);
    bounded(bytes.len(), || {
        let Ok(block) = Block::parse(&bytes, place(0)) else { return };
        let wanted = input.get(..20).unwrap_or(input);
        let _ = block.find(hash(wanted), wanted);
        assert_eq!(block.entries().count(), block.len());
        if block.check(&hash).is_ok() {
            rebuild(&block, &bytes);
        }
    });
}

/// Every record is found, and the builder makes the same bytes of them.
fn rebuild(block: &Block<'_>, bytes: &[u8]) {
    let mut builder = BlockBuilder::new(&Memory::new(4 << 20), bytes.len()).expect("there is memory for a frame");
    for entry in block.entries() {
        let entry = entry.expect("a checked block has whole records");
        assert_eq!(block.find(hash(entry.key), entry.key), Ok(Some(entry)));
        assert!(builder.push(hash(entry.key), entry.key, entry.value));
    }
    builder.finish(place(0), |built| assert!(built == bytes, "the builder makes another block of the same records"));
}

fn run(pages: usize, input: &[u8]) {
    let mut bytes = vec![0; (pages % 8 + 2) * PAGE];
    bytes.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    seal_run(&mut bytes);
    let disk = SimStorage::new(1);
    disk.put(NAME.file(), &bytes);
    let health: Arc<Health> = Arc::default();
    let (memory, scheduler) = (Memory::new(4 << 20), Scheduler::manual(health.clone()));
    let environment = Environment { database: NAME.database, storage: Arc::new(disk), memory, scheduler, health };
    let Ok(run) = Run::open(&environment, NAME) else { return };
    let mut frame = environment.memory.lease_essential(Component::Frames, Size::Frame).expect("there is memory for a frame");
    let mut value = Vec::new();
    for key in input.chunks(5) {
        let _ = run.find(hash(key), key, &mut frame, &mut value);
    }
    let _ = run.tags(&environment);
    if run.check(&environment, &hash).is_ok() {
        assert!(run.records() >= u64::from(run.blocks()));
    }
}

fn seal_block(bytes: &mut [u8], number: u32) {
    let Place { file, birth, block } = place(number);
    let seed = crc32c(crc32c(0, &file.to_le_bytes()), &birth.to_le_bytes());
    let sum = crc32c(crc32c(seed, &block.to_le_bytes()), &bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Blocks, fences and tags where the header says, then the header, which gets its own name.
fn seal_run(bytes: &mut [u8]) {
    let at = |bytes: &[u8], offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("a page is longer")) as usize;
    let (fences, tags, end) = (at(bytes, 104).min(bytes.len()), at(bytes, 112).min(bytes.len()), bytes.len());
    let block = 1 << (10 + bytes[65] % 3);
    for (number, block) in (0..).zip(bytes[PAGE..fences.max(PAGE)].chunks_mut(block)) {
        seal_block(block, number);
    }
    let sums = [crc32c(0, &bytes[fences.min(tags)..tags]), crc32c(0, &bytes[tags..end])];
    bytes[120..124].copy_from_slice(&sums[0].to_le_bytes());
    bytes[124..128].copy_from_slice(&sums[1].to_le_bytes());
    bytes[4..16].copy_from_slice(b"ECOhsrun\x01\0\0\0");
    bytes[16..40].fill(0);
    bytes[40..48].copy_from_slice(&NAME.database.to_le_bytes());
    bytes[48..52].copy_from_slice(&NAME.keyspace.to_le_bytes());
    bytes[52..56].copy_from_slice(&NAME.number.to_le_bytes());
    bytes[56..64].copy_from_slice(&NAME.birth.to_le_bytes());
    let sum = crc32c(crc32c(0, &NAME.file().identity().to_le_bytes()), &bytes[4..PAGE]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}
