mod damage;
mod fake;

use std::sync::Arc;

use ecotone_sys::chunk::Size;

use self::fake::{Event, Fake};
use super::*;
use crate::{
    memory::Component,
    page::{Page, PageAddress, PageBuilder, PageKind, RecordKind},
};

const PAGES: FileId = FileId::Pages(1);
const OTHER: FileId = FileId::Pages(2);

/// A database with two page files of old pages, and everything to write new ones.
struct Fixture {
    disk: Arc<Fake>,
    storage: Arc<dyn Storage>,
    memory: Arc<Memory>,
    health: Arc<Health>,
    double_write: DoubleWrite,
}

impl Fixture {
    /// Every page of both files is there, with content 0.
    fn new(pages: u32) -> Self {
        let disk = Fake::new();
        let (storage, memory, health): (Arc<dyn Storage>, _, _) =
            (disk.clone(), Memory::new(16 << 20), Arc::new(Health::default()));
        let double_write = DoubleWrite::create(&storage, &memory, &health).unwrap();
        for id in [PAGES, OTHER] {
            let file = storage.create(id, Access::Direct).unwrap();
            file.set_len(u64::from(pages) * PAGE as u64).unwrap();
            (0..pages).for_each(|page| file.write(&content(id, page, 0), u64::from(page) * PAGE as u64).unwrap());
            file.sync().unwrap();
        }
        Fixture { disk, storage, memory, health, double_write }
    }

    fn page_write(&self, id: FileId, page: u32, old: u64, new: u64) -> PageWrite {
        let mut block = self.memory.lease_essential(Component::Other, Size::Frame).unwrap();
        block.copy_from_slice(&content(id, page, new));
        let sectors = changed_sectors(&content(id, page, old), &block);
        PageWrite { file: self.storage.open(id, Access::Direct).unwrap(), page, sectors, block }
    }

    fn write(&self, pages: Vec<PageWrite>) -> Result<Vec<PageWrite>> {
        self.double_write.write(&mut *self.storage.queue().unwrap(), pages)
    }

    /// Opens the database again after a crash.
    fn reopen(&mut self) -> DoubleWrite {
        self.health = Arc::default();
        DoubleWrite::open(&self.storage, &self.memory, &self.health).unwrap()
    }

    fn repair(&mut self) -> Result<Repaired> {
        let ids = [PAGES, OTHER];
        let storage = self.storage.clone();
        let mut file_of = |identity| {
            let id = ids.into_iter().find(|id| id.identity() == identity)?;
            Some(storage.open(id, Access::Direct).unwrap())
        };
        let reopened = self.reopen();
        let repaired = reopened.repair(&mut file_of)?;
        reopened.settle(&mut file_of).map(|()| repaired)
    }

    /// The content in place, if the page verifies.
    fn in_place(&self, id: FileId, page: u32) -> Option<u64> {
        let mut bytes = vec![0; PAGE];
        self.storage.open(id, Access::Direct).unwrap().read(&mut bytes, u64::from(page) * PAGE as u64).unwrap();
        Some(Page::parse(&bytes, PageAddress { file: id.identity(), page }).ok()?.sequence())
    }
}

/// A page with a content that depends on `version`, which is also its sequence.
fn content(id: FileId, page: u32, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let place = PageAddress { file: id.identity(), page };
    let mut builder = PageBuilder::new(&mut bytes, place, PageKind::Bucket, 0, b"", None);
    for i in 0..30_u64 {
        let value = vec![(i + version * (i % 4)) as u8; 60 + (version % 9) as usize];
        assert!(builder.push(RecordKind::Value, format!("key{i:02}").as_bytes(), &value));
    }
    builder.finish(version);
    bytes
}

/// A sequence of choices that a number decides.
fn choices(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)) >> 16
    }
}

#[test]
fn sectors_that_differ() {
    let old = vec![0; PAGE];
    let mut new = old.clone();
    assert_eq!(changed_sectors(&old, &new), 0);
    (new[0], new[1023], new[PAGE - 1]) = (1, 1, 1);
    assert_eq!(changed_sectors(&old, &new), 0b1000_0011);
}

#[test]
fn the_area_is_synced_before_and_the_pages_after() {
    let fixture = Fixture::new(3);
    let before = fixture.disk.events().len();
    let given = [(PAGES, 2, 5), (OTHER, 0, 6), (PAGES, 1, 7)];
    let back =
        fixture.write(given.iter().map(|&(id, page, new)| fixture.page_write(id, page, 0, new)).collect()).unwrap();
    let area = FileId::Double(0);
    let page = PAGE as u64;
    let expected = [
        Event::Write(area, 0),
        Event::Sync(area),
        Event::Write(PAGES, 2 * page),
        Event::Write(OTHER, 0),
        Event::Write(PAGES, page),
        Event::Sync(PAGES),
        Event::Sync(OTHER),
    ];
    assert_eq!(fixture.disk.events()[before..], expected);
    for (write, (id, page, new)) in back.iter().zip(given) {
        assert_eq!((write.file.id(), write.page, &write.block[..]), (id, page, &content(id, page, new)[..]));
        assert_eq!(write.sectors, changed_sectors(&content(id, page, 0), &write.block));
        assert_eq!(fixture.in_place(id, page), Some(new));
    }
}

#[test]
fn creation_is_durable() {
    let events = Fixture::new(0).disk.events();
    let area = FileId::Double(0);
    assert!(events.starts_with(&[Event::Write(area, 0)]));
    let sync = events.iter().position(|event| *event == Event::Sync(area)).unwrap();
    assert_eq!((sync, events[sync + 1]), (AREA_BYTES / area::BLOCK_BYTES, Event::SyncDir));
}

type Versions = [[u64; 8]; 2];

/// A batch of random pages, with versions from `batch * 10` on.
fn random_batch(
    fixture: &Fixture,
    versions: &mut Versions,
    batch: u64,
    next: &mut impl FnMut() -> u64,
) -> Vec<PageWrite> {
    let mut writes = Vec::new();
    for (f, page) in (0..16).map(|i| (i / 8, i % 8)).filter(|_| next().is_multiple_of(3)).collect::<Vec<_>>() {
        let (old, new) = (versions[f][page], batch * 10 + next() % 10);
        writes.push(fixture.page_write([PAGES, OTHER][f], page as u32, old, new));
        versions[f][page] = new;
    }
    writes
}

/// Writes some batches. A crash cuts off the last one at its event `stop`. Returns whether the crash came before its
/// end.
fn crash_in_the_last_batch(seed: u64, stop: usize) -> bool {
    let mut next = choices(seed);
    let (mut fixture, mut versions) = (Fixture::new(8), Versions::default());
    let batches = 1 + next() % 3;
    for batch in 1..=batches {
        let writes = random_batch(&fixture, &mut versions, batch, &mut next);
        fixture.disk.stop_after((batch == batches).then_some(stop));
        if let Err(error) = fixture.write(writes) {
            assert_eq!(batch, batches, "only the last batch is cut off: {error}");
            assert!(matches!(fixture.write(Vec::new()), Err(crate::Error::Poisoned { .. })));
            crash_and_repair(&mut fixture, &mut next, &versions, batch);
            return true;
        }
    }
    fixture.disk.crash(|| false);
    check(&fixture, &versions, 0);
    false
}

/// Half of the time the repair crashes as well.
fn crash_and_repair(fixture: &mut Fixture, next: &mut impl FnMut() -> u64, versions: &Versions, batch: u64) {
    fixture.disk.crash(|| next().is_multiple_of(2));
    if next().is_multiple_of(2) {
        fixture.disk.stop_after(Some((next() % 4) as usize));
        let _ = fixture.repair();
        fixture.disk.crash(|| next().is_multiple_of(2));
    }
    fixture.repair().unwrap();
    check(fixture, versions, batch);
    assert_eq!(fixture.repair().unwrap().repaired, 0, "nothing is left to repair");
}

/// Every page is whole, and new unless it was in the batch that was cut off.
fn check(fixture: &Fixture, versions: &Versions, cut_off: u64) {
    for (f, page) in (0..16).map(|i| (i / 8, i % 8)) {
        let found = fixture
            .in_place([PAGES, OTHER][f], page as u32)
            .unwrap_or_else(|| panic!("page {page} of file {f} is torn"));
        let newest = versions[f][page];
        assert!(found == newest || (newest / 10 == cut_off && found < newest), "page {page} has {found}, not {newest}");
    }
}

#[test]
fn a_crash_at_any_request_leaves_whole_pages() {
    let mut cut_off = 0;
    for seed in 0..60 {
        for stop in 0..40 {
            println!("seed {seed}, stop {stop}");
            let cut = crash_in_the_last_batch(seed, stop);
            cut_off += u32::from(cut);
            if !cut {
                break;
            }
        }
    }
    assert!(cut_off > 300, "only {cut_off} crashes in a batch");
}

#[test]
fn the_largest_batch_is_protected() {
    let mut fixture = Fixture::new(256);
    let mut all: Vec<_> = (0..256).map(|page| fixture.page_write(PAGES, page, 0, 3)).collect();
    all.iter_mut().for_each(|write| write.sectors = 0xff);
    let before = fixture.disk.events().len();
    fixture.write(all).unwrap();
    let area_writes = fixture.disk.events()[before..]
        .iter()
        .filter(|event| matches!(event, Event::Write(FileId::Double(0), _)))
        .count();
    assert_eq!(area_writes, 17, "one request a block");
    let file = fixture.storage.open(PAGES, Access::Direct).unwrap();
    for page in 0..256 {
        file.write(&vec![0xab; PAGE], page * PAGE as u64).unwrap();
    }
    assert_eq!(fixture.repair().unwrap(), Repaired { pages: 256, repaired: 256 });
    assert!((0..256).all(|page| fixture.in_place(PAGES, page) == Some(3)));
}

#[test]
fn a_real_disk_does_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(crate::disk::Disk::open(folder.path(), true).unwrap());
    let (memory, health) = (Memory::new(16 << 20), Arc::default());
    let double_write = DoubleWrite::create(&storage, &memory, &health).unwrap();
    let file = storage.create(PAGES, Access::Direct).unwrap();
    file.preallocate(0, 40 * PAGE as u64).unwrap();
    let writes = (0..40).map(|page| {
        let mut block = memory.lease_essential(Component::Other, Size::Frame).unwrap();
        block.copy_from_slice(&content(PAGES, page, 3));
        PageWrite { file: file.clone(), page, sectors: 0xff, block }
    });
    let mut back = double_write.write(&mut *storage.queue().unwrap(), writes.collect()).unwrap();
    let torn = &mut back[17].block;
    torn[SECTOR..].fill(0);
    file.write(torn, 17 * PAGE as u64).unwrap();
    drop(double_write);
    let reopened = DoubleWrite::open(&storage, &memory, &health).unwrap();
    assert_eq!(reopened.repair(&mut |_| Some(file.clone())).unwrap(), Repaired { pages: 40, repaired: 1 });
    for (page, write) in (0..).zip(&mut back) {
        file.read(&mut write.block, u64::from(page) * PAGE as u64).unwrap();
        assert_eq!(write.block[..], content(PAGES, page, 3));
    }
}
