//! A double-write area with a right checksum, repaired over a file with whole, torn and empty pages. A whole page stays
//! what it is.
#![no_main]

use std::sync::Arc;

use ecotone_fuzz::seal_file;
use ecotone_substrate::{
    double_write::DoubleWrite,
    health::Health,
    limits::PAGE,
    memory::Memory,
    page::{Page, PageAddress, PageBuilder, PageKind},
    storage::{Access, File, FileId, Storage},
};
use ecotone_testkit::sim::SimStorage;
use libfuzzer_sys::fuzz_target;

const AREA: FileId = FileId::Double(0);
const PAGES: FileId = FileId::Pages(1);
const AREA_BYTES: usize = 17 << 16;

fuzz_target!(|input: &[u8]| {
    let mut area = vec![0; AREA_BYTES];
    area.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    seal_file(AREA, &mut area);
    let disk = SimStorage::new(1);
    disk.put(AREA, &area);
    disk.put(PAGES, &pages());
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let opened = DoubleWrite::open(&storage, &Memory::new(16 << 20), &Arc::new(Health::default()));
    let Ok(double_write) = opened else { return };
    let mut file_of = |identity: u64| -> Option<Arc<dyn File>> {
        if identity == PAGES.identity() { storage.open(PAGES, Access::Direct).ok() } else { None }
    };
    let _ = double_write.repair(&mut file_of);
    let after = &disk.files()[&PAGES];
    for ((number, before), after) in (0..).zip(pages().chunks(PAGE)).zip(after.chunks(PAGE)) {
        let place = PageAddress { file: PAGES.identity(), page: number };
        let whole = |bytes| Page::parse(bytes, place).is_ok();
        assert!(before == after || (!whole(before) && whole(after)), "page {number} was made another");
    }
});

/// Eight pages: of zeros, whole, and torn, in turn.
fn pages() -> Vec<u8> {
    let mut bytes = vec![0; 8 * PAGE];
    for (number, page) in (0..).zip(bytes.chunks_mut(PAGE)).filter(|(number, _)| number % 3 != 0) {
        let place = PageAddress { file: PAGES.identity(), page: number };
        PageBuilder::new(page, place, PageKind::Base, 0, b"", None).finish(u64::from(number));
        if number % 3 == 2 {
            page[2048] ^= 1;
        }
    }
    bytes
}
