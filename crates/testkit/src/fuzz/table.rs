//! Fuzz bodies for tables of the lsm engine.

use std::sync::Arc;

use ecotone_lsm::table::{
    Answer, Block, BlockBuilder, BlockSearch, Compression, Cursor, Table, WholeIndex, plain_room,
};
use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::PAGE,
    memory::{Component, Memory},
    storage,
};
use ecotone_sys::chunk::Size;

use super::{NAME, hash, name, number, padded, seal_blocks, sum};
use crate::{
    sim::SimStorage,
    table::{seal_block, seal_header},
};

/// Records; a record without a value is a tombstone.
type Records = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Unpacks, parses, searches and checks a block with a right checksum. If it passes the check, every record is found,
/// and the builder makes the same bytes of the records unless they were packed. Returns whether it passes.
///
/// # Panics
/// If a block that passes breaks these rules.
pub fn block(input: &[u8]) -> bool {
    let mut bytes = padded(input, PAGE);
    seal_block(NAME.place(0), &mut bytes);
    let mut room = vec![0; plain_room(PAGE)];
    let Ok(block) = Block::unpack(&bytes, NAME.place(0), &mut room) else { return false };
    let _ = block.find(input.get(..20).unwrap_or(input));
    let passes = block.check().is_ok();
    if passes {
        rebuild(&block, (bytes[4] == 1).then_some(&bytes));
    }
    passes
}

fn rebuild(block: &Block<'_>, plain: Option<&[u8]>) {
    let mut builder =
        BlockBuilder::new(&Memory::new(4 << 20), PAGE, Compression::None).expect("there is memory for a frame");
    let each = block.each(|key, value| {
        assert_eq!(block.find(key), Ok(BlockSearch::Found(value)));
        assert!(plain.is_none() || builder.push(key, value));
        Ok(())
    });
    each.expect("a checked block has whole records");
    let same = |built: &[u8]| plain.is_none_or(|plain| built == plain);
    builder.finish(NAME.place(0), |built| assert!(same(built), "the builder makes another block of the same records"));
}

/// Opens, searches, walks in both directions and checks a table whose number of pages is taken modulo a limit. The
/// checksums are right wherever the header leads. If the table passes the check, all of these give the same records.
/// Returns whether it passes.
///
/// # Panics
/// If a table that passes breaks these rules.
pub fn table(pages: usize, input: &[u8]) -> bool {
    let mut bytes = padded(input, (pages % 16 + 3) * PAGE);
    seal(&mut bytes);
    let disk = SimStorage::new(1);
    disk.put(NAME.file(), &bytes);
    let environment = disk.environment(NAME.database, 4 << 20);
    let Ok(table) = Table::open(&environment, NAME).map(Arc::new) else { return false };
    let (forward, backward) = (walk(&environment, &table, true), walk(&environment, &table, false));
    if let Ok(index) = table.whole_index(&environment, &frames(&environment)) {
        let mut memory = table.memory_for_a_block(&environment).expect("there is memory for a block");
        for key in input.chunks(5).take(200).filter(|key| table.covers(key)) {
            let _ = look(&environment, &table, &index, key, &mut memory);
        }
    }
    let passes = table.check(&environment, &hash).is_ok();
    if passes {
        let records = forward.expect("a checked table has whole records");
        let mut reversed = backward.expect("a checked table has whole records");
        reversed.reverse();
        assert!(records == reversed && records.len() as u64 == table.records());
        all_are_found(&environment, &table, &records);
    }
    passes
}

/// All records, in the order of a cursor.
fn walk(environment: &Environment, table: &Arc<Table>, forward: bool) -> Result<Records> {
    let (blocks, window) = (0..table.blocks(), window(environment));
    let mut records = Records::new();
    let mut cursor = if forward {
        Cursor::forward(table.clone(), blocks, window)
    } else {
        Cursor::backward(table.clone(), blocks, window)
    };
    while if forward { cursor.advance()? } else { cursor.retreat()? } {
        records.push((cursor.key().to_vec(), cursor.value().map(<[u8]>::to_vec)));
    }
    Ok(records)
}

fn window(environment: &Environment) -> storage::Block {
    environment.memory.lease_essential(Component::Frames, Size::Slab).expect("there is memory for a window")
}

/// Frames for an index or a filter.
fn frames(environment: &Environment) -> impl Fn() -> Result<storage::Block> + '_ {
    || environment.memory.lease_essential(Component::Other, Size::Frame)
}

/// The result of a search for a key, and whether a cursor that seeks the key stands on it.
fn look(
    environment: &Environment,
    table: &Arc<Table>,
    index: &WholeIndex,
    key: &[u8],
    memory: &mut storage::Block,
) -> Result<(Option<Option<Vec<u8>>>, bool)> {
    let mut value = Vec::new();
    let answer = table.find(table.locate(index, key), key, memory, &mut value)?;
    let mut cursor = Cursor::forward(table.clone(), 0..table.blocks(), window(environment));
    let there = cursor.seek(table.locate(index, key), key)? && cursor.key() == key;
    Ok((answer.map(|answer| (answer == Answer::Value).then_some(value)), there))
}

fn all_are_found(environment: &Environment, table: &Arc<Table>, records: &Records) {
    let index = table.whole_index(environment, &frames(environment)).expect("a checked table has an index");
    let filter = || table.filter(environment, &frames(environment)).expect("a checked table has its filter");
    let filter = (table.filter_pages() > 0).then(filter);
    let mut memory = table.memory_for_a_block(environment).expect("there is memory for a block");
    for (key, value) in records {
        let found = look(environment, table, &index, key, &mut memory).expect("a checked table can be searched");
        assert_eq!(found, (Some(value.clone()), true));
        assert!(filter.as_ref().is_none_or(|filter| filter.may_have(hash(key))));
    }
}

/// Seals blocks, partitions, index and filter where the header says, then the header, which gets its own name.
fn seal(bytes: &mut [u8]) {
    let pages = |bytes: usize| bytes.div_ceil(PAGE).saturating_mul(PAGE);
    bytes[64] = 12 + bytes[64] % 3;
    let size = 1 << bytes[64];
    let blocks = number::<4>(bytes, 68);
    let partitions = PAGE.saturating_add(blocks.saturating_mul(size));
    let index = partitions.saturating_add(number::<4>(bytes, 112).saturating_mul(PAGE));
    let filter = index.saturating_add(pages(number::<4>(bytes, 116)));
    let end = filter.saturating_add(pages(number::<4>(bytes, 120).saturating_mul(64)));
    seal_blocks(bytes, PAGE..partitions, size, 0);
    seal_blocks(bytes, partitions..index, PAGE, blocks as u32);
    let sums = [sum(bytes, index, filter), sum(bytes, filter, end)].concat();
    bytes[124..132].copy_from_slice(&sums);
    name(bytes, b"ECOlstab");
    seal_header(NAME.file(), bytes);
}
