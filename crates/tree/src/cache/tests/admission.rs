//! Reads that race with writes (trap 1).

use super::{super::RecordLookup, *};

fn miss(cache: &Cache, key: &[u8]) -> super::super::RecordTicket {
    match cache.get(0, key, Purpose::Read, <[u8]>::to_vec) {
        RecordLookup::Missing(ticket) => ticket,
        found => panic!("{key:?} is not to be there, but {found:?}"),
    }
}

#[test]
fn trap_01_a_value_read_before_a_write_is_not_admitted_after_it() {
    let (_memory, cache) = cache(8);
    let ticket = miss(&cache, b"key");
    assert!(put(&cache, b"key", Some(b"new"), 1));
    assert!(!cache.admit_clean(0, b"key", b"old", &ticket), "present and newer");
    assert_eq!(write_out(&cache), 1);
    while has(&cache, b"key") {
        cache.shrink(1);
    }
    assert!(!cache.admit_clean(0, b"key", b"old", &ticket), "absent, but the page is newer than the read");
    let ticket = miss(&cache, b"key");
    assert!(cache.admit_clean(0, b"key", b"new", &ticket));
    assert_eq!(cache.get(0, b"key", Purpose::Read, <[u8]>::to_vec), RecordLookup::Value(b"new".to_vec()));
    assert_eq!(cache.counts().refused, 2);
}

#[test]
fn trap_01_a_deleted_key_does_not_return_by_a_late_read() {
    let (_memory, cache) = cache(8);
    let ticket = miss(&cache, b"key");
    assert!(put(&cache, b"key", None, 1));
    assert_eq!(cache.get(0, b"key", Purpose::Read, <[u8]>::to_vec), RecordLookup::Tombstone);
    let records = begin_write(&cache);
    assert_eq!((records.len(), records.get(0).value), (1, None));
    assert_eq!(cache.get(0, b"key", Purpose::Read, <[u8]>::to_vec), RecordLookup::Tombstone, "until it is synced");
    cache.end_write(space(0), &all(), true);
    assert_eq!(cache.counts().records, 0, "a tombstone goes once its page knows");
    assert!(!cache.admit_clean(0, b"key", b"old", &ticket));
}

#[test]
fn trap_01_a_record_that_is_not_to_be_kept_goes_once_its_page_knows_and_no_sooner() {
    let (_memory, cache) = cache(8);
    let ticket = miss(&cache, b"twice");
    assert!(put(&cache, b"once", Some(b"1"), 1) && put(&cache, b"twice", Some(b"1"), 2));
    assert_eq!(begin_write(&cache).len(), 2);
    assert!(put(&cache, b"twice", Some(b"2"), 3));
    assert!(has(&cache, b"once"), "it is not synced yet");
    cache.end_write(space(0), &all(), false);
    miss(&cache, b"once");
    assert_eq!(
        cache.get(0, b"twice", Purpose::Read, <[u8]>::to_vec),
        RecordLookup::Value(b"2".to_vec()),
        "written again meanwhile, and dirty"
    );
    assert_eq!((cache.counts().records, cache.counts().dirty_records, cache.first_dirty(space(0))), (1, 1, Some(3)));
    assert_eq!(begin_write(&cache).len(), 1);
    cache.end_write(space(0), &all(), false);
    assert_eq!((cache.counts().records, cache.dirty_bytes()), (0, 0));
    assert!(!cache.admit_clean(0, b"twice", b"0", &ticket), "read before the writes");
    check::check(&cache);
}

#[test]
fn a_forgotten_keyspace_is_gone_for_readers_on_their_way_too() {
    let (_memory, cache) = cache(8);
    let ticket = miss(&cache, b"clean");
    assert!(put(&cache, b"dirty", Some(b"x"), 1));
    let token = cache.reserve(space(1), b"other", 1).unwrap();
    apply(&cache, token, space(1), b"other", Some(b"y"), 2);
    cache.forget_keyspace(space(0));
    assert_eq!(
        (cache.first_dirty(space(0)), cache.dirty_records(space(0)), cache.first_dirty(space(1))),
        (None, 0, Some(2))
    );
    assert!(!cache.admit_clean(0, b"clean", b"old", &ticket));
    miss(&cache, b"dirty");
    assert_eq!(cache.get(1, b"other", Purpose::Read, <[u8]>::to_vec), RecordLookup::Value(b"y".to_vec()));
    check::check(&cache);
}

/// For keyspaces whose records are written outside the cache.
#[test]
fn trap_01_what_is_refreshed_is_new_or_gone_and_nothing_older_comes_after() {
    let (_memory, cache) = cache(8);
    let get = |key: &[u8]| match cache.get(0, key, Purpose::Read, <[u8]>::to_vec) {
        RecordLookup::Value(value) => Some(value),
        RecordLookup::Tombstone => panic!("nothing is dirty"),
        RecordLookup::Missing(_) => None,
    };
    let ticket = miss(&cache, b"absent");
    cache.refresh(0, b"absent", Some(b"new"));
    assert!(!cache.admit_clean(0, b"absent", b"old", &ticket));
    assert_eq!(get(b"absent"), None, "it takes nothing in that was not read");
    for (value, left) in [(Some(&b"same"[..]), Some(&b"same"[..])), (Some(&[7; 900]), None), (None, None)] {
        let ticket = miss(&cache, b"key");
        assert!(cache.admit_clean(0, b"key", b"four", &ticket));
        let records = cache.counts().records;
        cache.refresh(0, b"key", value);
        assert_eq!(get(b"key").as_deref(), left);
        assert_eq!(cache.counts().records, records - usize::from(left.is_none()));
        check::check(&cache);
        cache.refresh(0, b"key", None);
        assert!(!cache.admit_clean(0, b"key", b"four", &ticket));
    }
    let (one, other) = (miss(&cache, b"key"), miss(&cache, b"other"));
    assert_eq!(super::super::RecordTicket::of(one.words()), one);
    assert!(one != other && cache.admit_clean(0, b"key", b"", &super::super::RecordTicket::of(one.words())));
}
