//! The read frequency of tables, and the kinds of index that follow from it.

use ecotone_engine::contract::{Compactable, Get};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    cache::table_reader::TableReader, table::IndexKind, tests::fixture::Fixture, tuning::Tuning, version::TableMeta,
};

const KEYS: u64 = 20_000;
/// Sizes for tables of 128 blocks, whose separators take more than a cell.
const SIZES: Tuning = Tuning { memtable: 1 << 20, table: 512 << 10, l0_target: 1 << 20, part: 2 << 20, ..Tuning::TINY };

/// A keyspace that chooses the kinds of its indexes by cost.
struct TableFixture(Fixture);

impl TableFixture {
    fn new() -> TableFixture {
        let log_fixture = TableFixture(Fixture::with(1, None::<IndexKind>, SIZES));
        log_fixture.write(0);
        log_fixture
    }

    /// Keys whose first byte is at least `first`.
    fn keys(first: u8) -> impl Iterator<Item = [u8; 8]> {
        (0..KEYS).map(|number| xxh3_64(&number.to_be_bytes()).to_be_bytes()).filter(move |key| key[0] >= first)
    }

    /// Writes keys, and compacts everything into one level.
    fn write(&self, first: u8) {
        TableFixture::keys(first).for_each(|key| self.0.write(&key, Some(&[first; 100])));
        self.0.keyspace.compact(&mut |_, _| ()).expect("the disk takes it");
    }

    /// Reads the first quarter of the keys, again and again.
    fn read(&self) {
        for key in (0..10).flat_map(|_| TableFixture::keys(0).filter(|key| key[0] < 0x40)) {
            assert!(self.0.keyspace.get(&key).unwrap().is_some());
        }
    }

    fn frequency(&self, of: impl Fn(&TableReader) -> bool) -> f64 {
        let lsm = self.0.keyspace.lsm();
        let version = lsm.current.get().version;
        lsm.files
            .loader()
            .read_frequency
            .of(version.tables().map(|reader| &**reader).filter(|reader| of(reader)), &version)
    }

    fn kinds(&self, of: impl Fn(&TableReader) -> bool) -> Vec<IndexKind> {
        let version = self.0.keyspace.lsm().current.get().version;
        version.tables().filter(|reader| of(reader)).map(|reader| reader.table().index_kind()).collect()
    }
}

fn is_first(reader: &TableReader) -> bool {
    reader.last()[0] < 0x40
}

/// One of the last tables, unless it is so small that all kinds of index take the same memory.
fn is_last(reader: &TableReader) -> bool {
    reader.first()[0] >= 0xA0 && reader.table().blocks() > 64
}

#[test]
fn heat_is_what_is_read_of_tables_by_what_is_read_of_all() {
    let log_fixture = TableFixture::new();
    assert_eq!(log_fixture.frequency(is_first), 1.0, "nothing was read");
    log_fixture.read();
    let [first, last, all, none] = [
        log_fixture.frequency(is_first),
        log_fixture.frequency(is_last),
        log_fixture.frequency(|_| true),
        log_fixture.frequency(|_| false),
    ];
    assert!(
        (3.5..=4.5).contains(&first) && last < 0.001 && (all - 1.0).abs() < 0.001 && none == 1.0,
        "{first} {last} {all}"
    );
}

#[test]
fn what_is_not_read_gets_a_smaller_index_when_it_is_written_again() {
    let log_fixture = TableFixture::new();
    let are = |kinds: Vec<IndexKind>, kind: IndexKind| !kinds.is_empty() && kinds.iter().all(|found| *found == kind);
    assert!(are(log_fixture.kinds(|_| true), IndexKind::Single));
    log_fixture.read();
    log_fixture.write(0xC0);
    assert!(
        are(log_fixture.kinds(is_first), IndexKind::Single) && are(log_fixture.kinds(is_last), IndexKind::Linear),
        "{:?}",
        log_fixture.kinds(|_| true)
    );
    assert!(TableFixture::keys(0).all(|key| is_there(&log_fixture, &key)));
}

fn is_there(log_fixture: &TableFixture, key: &[u8; 8]) -> bool {
    let first = if key[0] >= 0xC0 { 0xC0 } else { 0 };
    log_fixture.0.keyspace.get(key).unwrap() == Some(vec![first; 100])
}
