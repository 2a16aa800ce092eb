//! Tables that are read more and less, and the kinds of index that they get.

use xxhash_rust::xxh3::xxh3_64;

use super::world::World;
use crate::{
    engine::Engine,
    lsm::{family::Sizes, handle::Handle, table::Kind, version::Ranged},
};

const KEYS: u64 = 20_000;
/// Tables of 128 blocks, whose separators take more than a cell.
const SIZES: Sizes = Sizes { memtable: 1 << 20, table: 512 << 10, level_0: 1 << 20, part: 2 << 20, ..Sizes::TINY };

/// A keyspace that chooses the kinds of its indexes.
struct Ground(World);

impl Ground {
    fn new() -> Ground {
        let ground = Ground(World::with(1, None::<Kind>, SIZES));
        ground.write(0);
        ground
    }

    /// Keys whose first byte is this one or a higher one.
    fn keys(first: u8) -> impl Iterator<Item = [u8; 8]> {
        (0..KEYS).map(|number| xxh3_64(&number.to_be_bytes()).to_be_bytes()).filter(move |key| key[0] >= first)
    }

    /// Writes keys, and brings all into one level.
    fn write(&self, first: u8) {
        Ground::keys(first).for_each(|key| self.0.write(&key, Some(&[first; 100])));
        self.0.keyspace.compact(&mut |_, _| ()).expect("the disk takes it");
    }

    /// Reads the first quarter of the keys, again and again.
    fn read(&self) {
        for key in (0..10).flat_map(|_| Ground::keys(0).filter(|key| key[0] < 0x40)) {
            assert!(self.0.keyspace.get(&key).unwrap().is_some());
        }
    }

    fn heat(&self, of: impl Fn(&Handle) -> bool) -> f64 {
        let lsm = self.0.keyspace.lsm();
        let version = lsm.present.get().version;
        lsm.files.loader().heat.of(version.tables().map(|handle| &**handle).filter(|handle| of(handle)), &version)
    }

    fn kinds(&self, of: impl Fn(&Handle) -> bool) -> Vec<Kind> {
        let version = self.0.keyspace.lsm().present.get().version;
        version.tables().filter(|handle| of(handle)).map(|handle| handle.table().index_kind()).collect()
    }
}

fn is_first(handle: &Handle) -> bool {
    handle.last()[0] < 0x40
}

/// One of the last tables, but for one that is too small for any index to be smaller than the others.
fn is_last(handle: &Handle) -> bool {
    handle.first()[0] >= 0xA0 && handle.table().blocks() > 64
}

#[test]
fn heat_is_what_is_read_of_tables_by_what_is_read_of_all() {
    let ground = Ground::new();
    assert_eq!(ground.heat(is_first), 1.0, "nothing was read");
    ground.read();
    let [first, last, all, none] =
        [ground.heat(is_first), ground.heat(is_last), ground.heat(|_| true), ground.heat(|_| false)];
    assert!(
        (3.5..=4.5).contains(&first) && last < 0.001 && (all - 1.0).abs() < 0.001 && none == 1.0,
        "{first} {last} {all}"
    );
}

#[test]
fn what_is_not_read_gets_a_smaller_index_when_it_is_written_again() {
    let ground = Ground::new();
    let are = |kinds: Vec<Kind>, kind: Kind| !kinds.is_empty() && kinds.iter().all(|found| *found == kind);
    assert!(are(ground.kinds(|_| true), Kind::Single));
    ground.read();
    ground.write(0xC0);
    assert!(
        are(ground.kinds(is_first), Kind::Single) && are(ground.kinds(is_last), Kind::Linear),
        "{:?}",
        ground.kinds(|_| true)
    );
    assert!(Ground::keys(0).all(|key| is_there(&ground, &key)));
}

fn is_there(ground: &Ground, key: &[u8; 8]) -> bool {
    let first = if key[0] >= 0xC0 { 0xC0 } else { 0 };
    ground.0.keyspace.get(key).unwrap() == Some(vec![first; 100])
}
