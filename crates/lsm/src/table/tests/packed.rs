//! Tables with packed blocks: smaller if records repeat themselves, and otherwise like plain tables.

use ecotone_engine::read_ahead::{ReadAhead, ScanLengths};
use ecotone_substrate::limits::PAGE;
use ecotone_testkit::table::{Damaged, seal_block};
use rand::SeedableRng;

use crate::table::{compression::plain_bytes, tests::*};

fn lz4(block: usize) -> Options {
    Options { compression: Compression::Lz4, ..options(IndexKind::Linear, block) }
}

/// The blocks of a table, byte for byte as in its file.
fn stored(disk: &SimStorage, table: &Table) -> Vec<Vec<u8>> {
    let file = disk.files().remove(&table.name().file()).unwrap();
    (0..table.blocks()).map(|block| file[table.block_at(block) as usize..][..table.block_size()].to_vec()).collect()
}

/// Looks up every record and keys near it, walks in both directions, and checks the table.
fn holds(environment: &Environment, table: Table, records: &Records) {
    let table = Arc::new(table);
    table.check(environment, &hash).unwrap();
    let (index, mut memory) = (index_of(&table, environment).unwrap(), table.memory_for_a_block(environment).unwrap());
    for (key, value) in records {
        assert_eq!(ask(&table, &index, key, &mut memory).unwrap().as_ref(), Some(value), "{key:?}");
        let longer = [&key[..], &[0]].concat();
        if table.covers(&longer) && !records.contains_key(&longer) {
            assert_eq!(ask(&table, &index, &longer, &mut memory).unwrap(), None);
        }
    }
    let window = || environment.memory.lease_essential(Component::Frames, Size::Slab).unwrap();
    let mut forward = Cursor::forward(table.clone(), 0..table.blocks(), window());
    forward.read_ahead(environment.storage.queue().unwrap(), window());
    let mut small = Cursor::forward(table.clone(), 0..table.blocks(), table.memory_for_a_block(environment).unwrap());
    small.follow(
        Some(ReadAhead { scan_lengths: Arc::new(ScanLengths::new(1)), memory: Component::Frames }),
        ScanProgress::default(),
    );
    for (key, value) in records {
        for cursor in [&mut forward, &mut small] {
            assert!(cursor.advance().unwrap());
            assert_eq!((cursor.key(), cursor.value()), (&key[..], value.as_deref()));
        }
    }
    assert!(!forward.advance().unwrap() && !small.advance().unwrap());
    let mut backward = Cursor::backward(table.clone(), 0..table.blocks(), window());
    for (key, value) in records.iter().rev() {
        assert!(backward.retreat().unwrap());
        assert_eq!((backward.key(), backward.value()), (&key[..], value.as_deref()));
        let mut seeks = Cursor::forward(table.clone(), 0..table.blocks(), window());
        assert!(seeks.seek(table.locate(&index, key), key).unwrap() && seeks.key() == &key[..]);
    }
}

#[test]
fn records_that_repeat_themselves_take_less_space_and_are_found() {
    for block in [4096, 8192, 16384] {
        let (disk, mut random) = (SimStorage::new(1), SmallRng::seed_from_u64(2));
        let environment = environment(&disk);
        let value = |random: &mut SmallRng| [bytes(random, 30), vec![b' '; 70]].concat();
        let records: Records =
            (0..3000_u64).map(|key| (key.to_be_bytes().to_vec(), Some(value(&mut random)))).collect();
        let plain = write(&environment, NAME, options(IndexKind::Linear, block), &records).unwrap().unwrap().blocks();
        let name = FileIdentity { number: 10, ..NAME };
        let table = write(&environment, name, lz4(block), &records).unwrap().unwrap();
        assert!(table.blocks() * 3 < plain * 2, "{} blocks in place of {plain}", table.blocks());
        // The last block may be of any size, and the first ones adapt the rate.
        let stored = stored(&disk, &table);
        let unused = |block: &Vec<u8>| block.iter().rev().take_while(|byte| **byte == 0).count();
        let unused: usize = stored[..stored.len() - 1].iter().map(unused).sum();
        assert!(unused * 6 < stored.len() * block, "{unused} bytes of {} blocks are not used", stored.len());
        holds(&environment, table, &records);
    }
}

#[test]
fn records_that_do_not_repeat_themselves_stay_plain() {
    let (disk, mut random) = (SimStorage::new(1), SmallRng::seed_from_u64(3));
    let environment = environment(&disk);
    let records: Records = (0..500).map(|_| (bytes(&mut random, 8), Some(bytes(&mut random, 100)))).collect();
    let plain = write(&environment, NAME, options(IndexKind::Linear, 4096), &records).unwrap().unwrap().blocks();
    let table = write(&environment, FileIdentity { number: 10, ..NAME }, lz4(4096), &records).unwrap().unwrap();
    assert_eq!(table.blocks(), plain);
    assert!(stored(&disk, &table).iter().all(|block| plain_bytes(block).is_none()));
    holds(&environment, table, &records);
}

#[test]
fn what_packs_worse_than_what_came_before_goes_to_the_next_blocks() {
    for (seed, record) in [(1, 30), (2, 108), (3, 700), (4, 1900)] {
        let (disk, mut random) = (SimStorage::new(1), SmallRng::seed_from_u64(seed));
        let environment = environment(&disk);
        let entry = |number: u32| {
            let key = number.to_be_bytes().to_vec();
            let repeats = (number / 70).is_multiple_of(2);
            let value = if repeats { vec![number as u8; record - 4] } else { bytes(&mut random, record - 4) };
            (key, (!number.is_multiple_of(11)).then_some(value))
        };
        let records: Records = (0..2000).map(entry).collect();
        let table = write(&environment, NAME, lz4(4096), &records).unwrap().unwrap();
        let packed = stored(&disk, &table).iter().filter(|block| plain_bytes(block).is_some()).count();
        assert!(0 < packed && packed < table.blocks() as usize, "{packed} of {} blocks are packed", table.blocks());
        holds(&environment, table, &records);
    }
}

#[test]
#[ignore = "long"]
fn every_flipped_byte_is_noticed_where_it_is() {
    let (disk, records) = (SimStorage::new(1), usual(150));
    let environment = environment(&disk);
    write(&environment, NAME, lz4(4096), &records).unwrap();
    let read = || {
        let table = Arc::new(Table::open(&environment, NAME)?);
        let (index, mut memory) = (index_of(&table, &environment)?, table.memory_for_a_block(&environment)?);
        let asked = records.iter().map(|(key, value)| {
            ask(&table, &index, key, &mut memory).map(|answer| assert_eq!(answer.as_ref(), Some(value)))
        });
        asked.collect::<Result<()>>().and_then(|()| table.check(&environment, &hash))
    };
    let damaged = Damaged::new(&disk, NAME, &read);
    for offset in (PAGE..2 * PAGE).chain((0..damaged.whole().len()).step_by(7)) {
        let error = damaged.flip(offset).unwrap_err();
        let place = damaged.place(&error).unwrap_or_else(|| panic!("byte {offset}: {error}"));
        assert_eq!(place / PAGE as u64, (offset / PAGE) as u64, "byte {offset}: {error}");
    }
}

#[test]
fn a_changed_packed_block_with_a_right_checksum_is_unpacked_within_its_room_or_not_at_all() {
    let (disk, records, at) = (SimStorage::new(1), usual(150), NAME.place(0));
    let table = write(&environment(&disk), NAME, lz4(4096), &records).unwrap().unwrap();
    let whole = stored(&disk, &table).swap_remove(0);
    let plain = plain_bytes(&whole).expect("it is packed");
    let (mut refused, mut room) = (0, vec![0; plain_room(PAGE)]);
    Block::unpack(&whole, at, &mut room).unwrap().check().unwrap();
    for (offset, bit) in (4..PAGE).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1 << bit;
        seal_block(at, &mut bytes);
        let Ok(block) = Block::unpack(&bytes, at, &mut room) else {
            refused += 1;
            continue;
        };
        let _ = records.keys().take(3).map(|key| block.find(key)).collect::<Vec<_>>();
        if let Err(error) = block.check() {
            assert!(error.offset <= plain, "{error:?}");
        }
    }
    assert!(refused > 1000, "{refused} changes were noticed");
    assert!(Block::unpack(&whole, at, &mut []).is_err() && Block::parse(&whole, at).is_err(), "there is no room");
}

/// Packed blocks of older files must stay readable, whatever the packer does now.
#[test]
fn a_block_that_was_packed_once_is_unpacked() {
    let mut bytes = vec![0; PAGE];
    bytes[4] = 2;
    bytes[6..8].copy_from_slice(&1_u16.to_le_bytes());
    // Literals: the head of the entry and one letter; a match of 25 letters, one back; literals: 4 letters and the
    // restart.
    let sequence = [0x5f, 0x01, 0x01, 0x1e, b'k', b'v', 0x01, 0x00, 0x06, 0x60, b'v', b'v', b'v', b'v', 0x10, 0x00];
    let plain = 16 + 4 + 1 + 25 + 4 + 2;
    bytes[8..10].copy_from_slice(&(plain as u16 - 2).to_le_bytes());
    bytes[10..12].copy_from_slice(&(sequence.len() as u16).to_le_bytes());
    bytes[12..14].copy_from_slice(&(plain as u16).to_le_bytes());
    bytes[16..16 + sequence.len()].copy_from_slice(&sequence);
    seal_block(NAME.place(0), &mut bytes);
    let mut room = vec![0; plain_room(PAGE)];
    let block = Block::unpack(&bytes, NAME.place(0), &mut room).unwrap();
    block.check().unwrap();
    assert_eq!(block.find(b"k").unwrap(), BlockSearch::Found(Some(&[b'v'; 30])));
}
