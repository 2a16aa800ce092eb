//! A page with a right checksum: parsed, read in every way, checked. What passes the check is a page that the builder
//! would make.
#![no_main]

use ecotone_fuzz::bounded;
use ecotone_substrate::{
    limits::PAGE,
    page::{Page, PageAddress, PageBuilder, seal},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut bytes = [0; PAGE];
    bytes.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let place = PageAddress { file: 7, page: field(16) as u32 };
    let sequence = field(8);
    seal(&mut bytes, place, sequence);
    bounded(PAGE, || {
        let _ = Page::reparse(&bytes);
        if let Ok(page) = Page::parse(&bytes, place) {
            read(&page, input);
            if page.check().is_ok() {
                rebuild(&page, place, &bytes);
            }
        }
    });
});

fn read(page: &Page<'_>, wanted: &[u8]) {
    let mut key = Vec::new();
    let entries = (0..=page.len()).filter(|&position| page.key_into(position, &mut key)).count();
    assert_eq!(page.iter().count(), entries);
    assert_eq!(page.iter().rev().count(), entries);
    assert!(entries <= page.len() && page.room() <= PAGE);
    let wanted = wanted.get(..20).unwrap_or(wanted);
    let _ =
        (page.get(wanted), page.search(wanted), page.covers(wanted), page.covers(page.lower()), format!("{page:?}"));
}

/// Every record is found, and the builder makes the same bytes of them.
fn rebuild(page: &Page<'_>, place: PageAddress, bytes: &[u8; PAGE]) {
    let mut built = [0; PAGE];
    let mut builder = PageBuilder::new(&mut built, place, page.kind(), page.related(), page.lower(), page.upper());
    let mut key = Vec::new();
    for position in 0..page.len() {
        assert!(page.key_into(position, &mut key) && page.covers(&key));
        let entry = page.entry(position).expect("a checked page has all entries");
        assert_eq!((page.search(&key), page.get(&key)), (Ok(position), Some((entry.kind, entry.value))));
        assert!(builder.push(entry.kind, &key, entry.value));
    }
    builder.finish(page.sequence());
    assert!(built == *bytes, "the builder makes another page of the same records");
}
