//! Segments of an index, one after the other, behind a key: read, asked for the page of that key, and written as what
//! reads the same.
#![no_main]

use ecotone::internal::{
    substrate::codec::{Reader, Writer},
    tree::index::Segment,
};
use ecotone_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&length, rest)) = input.split_first() else { return };
    let (key, entries) = rest.split_at(rest.len().min(length.into()));
    let (lower, key) = key.split_at(key.len() / 2);
    bounded(input.len(), || {
        let mut reader = Reader::new(entries);
        while let Ok(segment) = Segment::decode(&mut reader) {
            ask(&segment, lower, key);
            let mut writer = Writer::new();
            segment.encode(&mut writer);
            let bytes = writer.finish();
            let mut again = Reader::new(&bytes);
            assert_eq!(Segment::decode(&mut again).as_ref(), Ok(&segment));
            assert!(again.finish().is_ok(), "a segment is read to its end");
        }
    });
});

fn ask(segment: &Segment, lower: &[u8], key: &[u8]) {
    let count = segment.base_count();
    assert!(segment.position_of(lower, key) < count, "a key has a page");
    assert_eq!(segment.page_pairs().count(), segment.base_pages().count());
    assert!(segment.all_pages().all(|page| page > 0), "page 0 is the header");
    (0..count).for_each(|position| drop(segment.fence(lower, position)));
}
