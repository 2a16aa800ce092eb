mod damage;
mod golden;
mod model;

use super::*;
use crate::limits::{MAX_KEY, MAX_RECORD, PAGE};

const PLACE: PageAddress = PageAddress { file: 4 << 56 | 7, page: 9 };

/// A page of values (or, where the value is `None`, tombstones), which must fit.
fn build(lower: &[u8], upper: Option<&[u8]>, records: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
    let mut buf = vec![0xee; PAGE];
    let mut builder = PageBuilder::new(&mut buf, PLACE, PageKind::Base, 0, lower, upper);
    for (key, value) in records {
        assert!(push(&mut builder, key, *value));
    }
    builder.finish(1);
    buf
}

fn push(builder: &mut PageBuilder<'_>, key: &[u8], value: Option<&[u8]>) -> bool {
    let kind = if value.is_some() { RecordKind::Value } else { RecordKind::Tombstone };
    builder.push(kind, key, value.unwrap_or_default())
}

fn parse(bytes: &[u8]) -> Page<'_> {
    Page::parse(bytes, PLACE).expect("the page was just built")
}

#[test]
fn the_largest_record_fits_beside_the_longest_fences() {
    let (lower, upper) = (vec![1; MAX_KEY], vec![9; MAX_KEY]);
    let (key, value) = (vec![5; MAX_KEY], vec![6; MAX_RECORD - MAX_KEY]);
    let bytes = build(&lower, Some(&upper), &[(&key, Some(&value))]);
    assert_eq!(parse(&bytes).get(&key), Some((RecordKind::Value, &value[..])));
    assert_eq!(parse(&bytes).check(), Ok(()));
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut buf = vec![0; PAGE];
    let mut builder = PageBuilder::new(&mut buf, PLACE, PageKind::Base, 0, b"aa", Some(b"ab"));
    assert_eq!((builder.prefix_len(), builder.room()), (1, capacity(b"aa", Some(b"ab"))));
    let (first, second) = (vec![7; 1800], vec![8; 1800]);
    assert!(push(&mut builder, b"aa1", Some(&first)) && push(&mut builder, b"aa2", Some(&second)));
    let left = builder.room();
    let fitting = left - record_bytes(1, 3, 0);
    assert!(!push(&mut builder, b"aa3", Some(&vec![9; fitting + 1])), "one byte too many");
    assert_eq!((builder.room(), builder.len()), (left, 2));
    assert!(push(&mut builder, b"aa3", Some(&vec![9; fitting])));
    assert_eq!(builder.room(), 0);
    builder.finish(1);
    let page = parse(&buf);
    assert_eq!((page.room(), page.len(), page.check()), (0, 3, Ok(())));
}

#[test]
fn the_empty_key_and_the_unbounded_page() {
    let bytes = build(b"", None, &[(b"", Some(b"first")), (b"\0", None), (b"\0\0", Some(b""))]);
    let page = parse(&bytes);
    assert_eq!(page.get(b""), Some((RecordKind::Value, &b"first"[..])));
    assert_eq!(page.get(b"\0"), Some((RecordKind::Tombstone, &b""[..])));
    assert_eq!(page.get(b"\0\0"), Some((RecordKind::Value, &b""[..])));
    assert_eq!((page.search(b"\0\0\0"), page.upper(), page.covers(&[255; 9])), (Err(3), None, true));
}

#[test]
fn keys_outside_of_the_prefix_stand_before_or_behind() {
    let bytes = build(b"key5", Some(b"key7"), &[(b"key5x", Some(b"1")), (b"key6", Some(b"2"))]);
    let page = parse(&bytes);
    assert_eq!(page.prefix(), b"key");
    for (key, position) in [("", 0), ("ke", 0), ("ka", 0), ("key", 0), ("kez", 2), ("l", 2), ("key9", 2)] {
        assert_eq!(page.search(key.as_bytes()), Err(position), "{key}");
    }
}

#[test]
fn a_sealed_page_has_its_new_place() {
    let mut bytes = build(b"", None, &[(b"a", Some(b"b"))]);
    let place = PageAddress { file: 5, page: 6 };
    seal(&mut bytes, place, 77);
    assert_eq!(Page::parse(&bytes, PLACE).unwrap_err(), PageError::Checksum);
    let page = Page::parse(&bytes, place).unwrap();
    assert_eq!((page.sequence(), page.len()), (77, 1));
    assert_eq!(Page::reparse(&bytes).unwrap().get(b"a"), Some((RecordKind::Value, &b"b"[..])));
}

#[test]
fn the_builder_refuses_what_would_be_lost() {
    let refused = |keys: &'static [&'static [u8]]| {
        let result = std::panic::catch_unwind(|| {
            let mut buf = vec![0; PAGE];
            let mut builder = PageBuilder::new(&mut buf, PLACE, PageKind::Base, 0, b"bb", Some(b"bd"));
            keys.iter().for_each(|key| assert!(push(&mut builder, key, Some(b"")), "there is room"));
        });
        result.is_err()
    };
    assert!(!refused(&[b"bb", b"bbx", b"bc", b"bczzz"]));
    assert!(refused(&[b"ba"]) && refused(&[b"b"]) && refused(&[b"bd"]) && refused(&[b"c"]), "outside of the fences");
    assert!(refused(&[b"bc", b"bd"]) && refused(&[b"bc", b"bb"]) && refused(&[b"bc", b"bc"]), "not above the last key");
}
