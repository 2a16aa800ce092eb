//! Cursors, compared with sorted lists.

use ecotone_substrate::{
    limits::PAGE,
    memory::Component,
    storage::{FileKind, Reads, Storage},
};
use ecotone_sys::chunk::Size;
use ecotone_testkit::table::seal_block;
use rand::SeedableRng;

use crate::table::tests::*;

/// A table on a disk.
struct Fixture {
    disk: SimStorage,
    environment: Environment,
    table: Arc<Table>,
    index: WholeIndex,
    records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Fixture {
    fn new(kind: IndexKind, block: usize, records: Records) -> Fixture {
        let disk = SimStorage::new(1);
        let environment = environment(&disk);
        let table = Arc::new(write(&environment, NAME, options(kind, block), &records).unwrap().unwrap());
        let index = index_of(&table, &environment).unwrap();
        Fixture { disk, environment, table, index, records: records.into_iter().collect() }
    }

    fn window(&self, size: Size) -> storage::Block {
        self.environment.memory.lease_essential(Component::Frames, size).unwrap()
    }

    fn forward(&self, size: Size, ahead: bool) -> Cursor {
        self.with(Cursor::forward(self.table.clone(), 0..self.table.blocks(), self.window(size)), size, ahead)
    }

    fn backward(&self, size: Size, ahead: bool) -> Cursor {
        self.with(Cursor::backward(self.table.clone(), 0..self.table.blocks(), self.window(size)), size, ahead)
    }

    fn with(&self, mut cursor: Cursor, size: Size, ahead: bool) -> Cursor {
        if ahead {
            cursor.read_ahead(self.environment.storage.queue().unwrap(), self.window(size));
        }
        cursor
    }

    /// The number of records below a key.
    fn below(&self, key: &[u8]) -> usize {
        self.records.partition_point(|(other, _)| **other < *key)
    }

    fn locate(&self, key: &[u8]) -> Candidates {
        self.table.locate(&self.index, key)
    }

    fn is_on(&self, cursor: &Cursor, place: usize) -> bool {
        let (key, value) = &self.records[place];
        cursor.key() == *key && cursor.value() == value.as_deref()
    }
}

/// A record's key, or one near it.
fn near(random: &mut SmallRng, fixture: &Fixture) -> Vec<u8> {
    let mut key = fixture.records[random.random_range(0..fixture.records.len())].0.clone();
    match random.random_range(0..4) {
        0 => {}
        1 => key.push(0),
        2 => {
            let at = random.random_range(0..key.len());
            key[at] = random.random();
        }
        _ => key.truncate(random.random_range(0..=key.len())),
    }
    key
}

/// Moves a cursor forward, backward and to keys. Places number the records, with one place before and one behind them.
fn wander(random: &mut SmallRng, fixture: &Fixture, mut cursor: Cursor, mut place: usize) {
    let last = fixture.records.len() + 1;
    for _ in 0..600 {
        let there = match random.random_range(0..10) {
            0 => {
                let key = near(random, fixture);
                place = fixture.below(&key) + 1;
                cursor.seek(fixture.locate(&key), &key).unwrap()
            }
            1..5 => {
                place = last.min(place + 1);
                cursor.advance().unwrap()
            }
            5..9 => {
                place = place.saturating_sub(1);
                cursor.retreat().unwrap()
            }
            // A long walk, so that windows change.
            _ => {
                let steps = random.random_range(0..100);
                place = last.min(place + steps);
                (0..steps).map(|_| cursor.advance().unwrap()).last().unwrap_or((1..last).contains(&place))
            }
        };
        assert_eq!(there, (1..last).contains(&place));
        assert!(!there || fixture.is_on(&cursor, place - 1));
    }
}

#[test]
fn cursors_go_where_one_goes_in_a_list() {
    let mut random = SmallRng::seed_from_u64(1);
    for (record, count) in [(2, 300), (20, 5000), (108, 2000), (1024, 300), (1900, 80), (50, 1)] {
        for kind in IndexKind::ALL {
            for (block, sizes) in [(4096, &[Size::Frame, Size::Slab][..]), (16384, &[Size::Slab])] {
                let fixture = Fixture::new(kind, block, sized(&mut random, count, record));
                for (size, ahead) in sizes.iter().flat_map(|size| [(*size, false), (*size, true)]) {
                    wander(&mut random, &fixture, fixture.forward(size, ahead), 0);
                    wander(&mut random, &fixture, fixture.backward(size, ahead), fixture.records.len() + 1);
                }
            }
        }
    }
}

#[test]
fn a_cursor_seeks_every_key_and_what_lies_between() {
    let mut random = SmallRng::seed_from_u64(2);
    for kind in IndexKind::ALL {
        for records in [usual(3000), sized(&mut random, 3000, 40), long(100)] {
            let fixture = Fixture::new(kind, 4096, records);
            let mut cursor = fixture.forward(Size::Frame, false);
            for (place, (key, _)) in fixture.records.iter().enumerate() {
                assert!(cursor.seek(fixture.locate(key), key).unwrap() && fixture.is_on(&cursor, place));
                let behind = [&key[..], &[0]].concat();
                let place = fixture.below(&behind);
                assert_eq!(cursor.seek(fixture.locate(&behind), &behind).unwrap(), place < fixture.records.len());
                assert!(place == fixture.records.len() || fixture.is_on(&cursor, place));
            }
        }
    }
}

#[test]
fn the_blocks_of_a_range_have_all_of_its_records() {
    let mut random = SmallRng::seed_from_u64(3);
    for kind in IndexKind::ALL {
        let fixture = Fixture::new(kind, 4096, sized(&mut random, 3000, 60));
        for _ in 0..300 {
            let mut keys = [near(&mut random, &fixture), near(&mut random, &fixture)];
            keys.sort();
            let [first, last] = keys;
            let blocks = fixture.locate(&first).low..fixture.locate(&last).high + 1;
            let mut cursor = Cursor::forward(fixture.table.clone(), blocks.clone(), fixture.window(Size::Slab));
            let mut there = cursor.seek(fixture.locate(&first), &first).unwrap();
            for place in
                (fixture.below(&first)..fixture.records.len()).take_while(|place| fixture.records[*place].0 <= last)
            {
                assert!(there && fixture.is_on(&cursor, place), "{first:?}, {last:?}: {blocks:?}");
                there = cursor.advance().unwrap();
            }
        }
    }
}

/// Every block is read once. A request reads as many blocks as the memory holds, with and without read-ahead.
#[test]
fn a_walk_reads_windows() {
    let fixture = Fixture::new(IndexKind::Linear, 4096, usual(20_000));
    let blocks = u64::from(fixture.table.blocks());
    for (size, ahead) in [(Size::Frame, false), (Size::Slab, false), (Size::Slab, true)] {
        for forward in [true, false] {
            let before = fixture.disk.counters_of(FileKind::Table);
            let mut cursor = if forward { fixture.forward(size, ahead) } else { fixture.backward(size, ahead) };
            let mut count = 0;
            while if forward { cursor.advance().unwrap() } else { cursor.retreat().unwrap() } {
                count += 1;
            }
            drop(cursor);
            let after = fixture.disk.counters_of(FileKind::Table);
            assert_eq!(count, fixture.records.len());
            assert_eq!(after.reads - before.reads, blocks.div_ceil((size.bytes() / PAGE) as u64));
            assert_eq!(after.read_bytes - before.read_bytes, blocks * PAGE as u64);
        }
    }
}

#[test]
fn a_cursor_begins_with_what_it_has_asked_for() {
    let (fixture, mut random) = (Fixture::new(IndexKind::Single, 4096, usual(20_000)), SmallRng::seed_from_u64(4));
    let mut queue = fixture.environment.storage.queue().unwrap();
    for (size, ahead) in [(Size::Frame, false), (Size::Slab, false), (Size::Slab, true)] {
        for number in 0..10 {
            let mut cursor = if number % 2 == 0 { fixture.forward(size, ahead) } else { fixture.backward(size, ahead) };
            let place = random.random_range(0..fixture.records.len());
            let key = &fixture.records[place].0;
            let mut reads = Reads::new(&mut *queue);
            cursor.ask(fixture.locate(key).first, &mut reads, number).unwrap();
            let (asked, memory) = reads.wait().unwrap().expect("it was asked for");
            cursor.receive(memory);
            let before = fixture.disk.counters_of(FileKind::Table).reads;
            assert!(asked == number && cursor.seek(fixture.locate(key), key).unwrap() && fixture.is_on(&cursor, place));
            assert_eq!(fixture.disk.counters_of(FileKind::Table).reads, before);
            wander(&mut random, &fixture, cursor, place + 1);
        }
    }
}

/// The error that ends a walk.
fn error_of(mut step: impl FnMut() -> Result<bool>) -> Error {
    loop {
        match step() {
            Ok(there) => assert!(there, "it went to the end"),
            Err(error) => return error,
        }
    }
}

#[test]
fn records_out_of_order_end_a_walk() {
    let mut fixture = Fixture::new(IndexKind::Linear, 4096, usual(200));
    let mut bytes = fixture.disk.files()[&NAME.file()].clone();
    let (_, blocks) = bytes.split_at_mut(PAGE);
    let (first, second) = blocks.split_at_mut(PAGE);
    first.swap_with_slice(&mut second[..PAGE]);
    (0..).zip([first, &mut second[..PAGE]]).for_each(|(block, bytes)| seal_block(NAME.place(block), bytes));
    fixture.disk.put(NAME.file(), &bytes);
    fixture.table = Arc::new(Table::open(&fixture.environment, NAME).unwrap());
    let (mut forward, mut backward) = (fixture.forward(Size::Slab, false), fixture.backward(Size::Slab, true));
    assert!(error_of(|| forward.advance()).is_corruption() && !forward.advance().unwrap());
    assert!(error_of(|| backward.retreat()).is_corruption() && !backward.retreat().unwrap());
}

#[test]
fn what_cannot_be_read_ahead_is_an_error_when_it_is_wanted() {
    let fixture = Fixture::new(IndexKind::Linear, 4096, usual(2000));
    let mut cursor = fixture.forward(Size::Slab, true);
    // The second window fails.
    fixture.disk.fail_at(fixture.disk.io_index() + 1, std::io::ErrorKind::Other);
    assert!(!error_of(|| cursor.advance()).is_corruption() && !cursor.advance().unwrap());
    assert!(
        cursor.seek(fixture.locate(&fixture.records[600].0), &fixture.records[600].0).unwrap()
            && fixture.is_on(&cursor, 600)
    );
}
