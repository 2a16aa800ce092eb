//! Tests of the read checker: it raises the alarm on wrong reads.

use std::{
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
};

use ecotone_engine::{
    contract::{Engine, Get},
    remaining_range::{Direction, RemainingRange},
};

use crate::{
    checker::{ObservedLayers, ObservedRecord, ReadChecker},
    manifest::{PagedRangeEdit, RangeEditKind, VersionEdit},
    table::IndexKind,
    tests::fixture::{ALL, Fixture, collect},
    tuning::Tuning,
};

const KEY: &[u8] = b"key";

/// Whether a call raises the alarm.
fn alarms<T>(judged: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(judged)).is_err()
}

fn write(read_checker: &ReadChecker, key: &[u8], value: Option<&[u8]>, seq: u64) {
    read_checker.begin(key, value, seq);
    read_checker.end(key, true);
}

/// A key that was written three times, and deleted before the last.
fn written() -> ReadChecker {
    let read_checker = ReadChecker::new(true, false);
    for (seq, value) in [(1, Some(&b"1"[..])), (2, Some(&b"2"[..])), (3, None), (4, Some(&b"4"[..]))] {
        write(&read_checker, KEY, value, seq);
    }
    read_checker
}

#[test]
fn a_read_gives_what_was_the_newest_since_it_began() {
    let read_checker = ReadChecker::new(true, false);
    let since = read_checker.now();
    write(&read_checker, KEY, Some(b"1"), 1);
    let later = read_checker.now();
    read_checker.begin(KEY, Some(b"2"), 2);
    for value in [None, Some(&b"1"[..]), Some(&b"2"[..])] {
        read_checker.check_read(since, KEY, value);
    }
    assert!(alarms(|| read_checker.check_read(since, KEY, Some(b"3"))), "nobody wrote it");
    [b"1", b"2"].iter().for_each(|value| read_checker.check_read(later, KEY, Some(&value[..])));
    assert!(alarms(|| read_checker.check_read(later, KEY, None)), "it was written before the read");
    read_checker.end(KEY, true);
    read_checker.check_read(later, KEY, Some(b"1"));
    assert!(alarms(|| read_checker.check_read(read_checker.now(), KEY, Some(b"1"))), "it was replaced before the read");
    read_checker.begin(KEY, None, 3);
    read_checker.end(KEY, false);
    assert!(alarms(|| read_checker.check_read(later, KEY, None)), "the delete was not made");
    read_checker.check_read(later, b"other", None);
    assert!(alarms(|| read_checker.check_read(later, b"other", Some(b"1"))), "nobody wrote the key");
}

#[test]
fn what_was_before_the_ledger_began_is_not_judged() {
    let read_checker = ReadChecker::new(false, false);
    [None, Some(&b"1"[..])].into_iter().for_each(|value| read_checker.check_read(read_checker.now(), KEY, value));
    write(&read_checker, KEY, Some(b"1"), 1);
    assert!(alarms(|| read_checker.check_read(read_checker.now(), KEY, None)), "it was replaced before the read");
    let tables = |values: [&'static [u8]; 3]| ObservedLayers {
        tables: values.map(|value| ObservedRecord::new(Some(value), None)).to_vec(),
        ..ObservedLayers::default()
    };
    read_checker.check_order(KEY, &tables([b"1", b"0", b"before"]));
    assert!(alarms(|| read_checker.check_order(KEY, &tables([b"0", b"1", b"before"]))), "what was before is older");
    read_checker.replayed();
    read_checker.check_order(KEY, &tables([b"0", b"1", b"before"]));
    write(&read_checker, KEY, Some(b"2"), 2);
    assert!(alarms(|| read_checker.check_order(KEY, &tables([b"1", b"2", b"before"]))), "what was replayed is older");
    assert!(read_checker.has_history(KEY) && !read_checker.has_history(b"other"));
    let read_checker = written();
    assert!(read_checker.has_history(KEY) && read_checker.has_history(b"other"));
    read_checker.forget(b"a", b"z");
    assert!(!read_checker.has_history(KEY) && !read_checker.has_history(b"other"));
    read_checker.check_read(read_checker.now(), KEY, Some(b"loaded"));
    read_checker.check_read(read_checker.now(), b"other", Some(b"loaded"));
}

#[test]
fn records_of_a_key_grow_older_from_layer_to_layer() {
    let read_checker = written();
    let met = |value: &u8| ObservedRecord::new((*value != b'3').then_some(std::slice::from_ref(value)), None);
    let of = |above: &[u8], tables: &[u8], below: Option<u8>| ObservedLayers {
        above: above.iter().map(met).collect(),
        tables: tables.iter().map(met).collect(),
        below: below.as_ref().map(met),
    };
    let right: [(&[u8], &[u8], Option<u8>); 6] = [
        (b"4", b"321", Some(b'1')),
        (b"", b"4421", Some(b'1')),
        (b"4", b"31", Some(b'2')),
        (b"42", b"", Some(b'2')),
        (b"", b"", Some(b'2')),
        (b"4", b"321", Some(b'2')),
    ];
    for (above, tables, below) in right {
        read_checker.check_order(KEY, &of(above, tables, below));
    }
    let wrong: [(&[u8], &[u8], Option<u8>); 6] = [
        (b"24", b"", None),
        (b"3", b"4", None),
        (b"4", b"12", None),
        (b"4", b"21", Some(b'4')),
        (b"42", b"", Some(b'4')),
        (b"4", b"21", Some(b'0')),
    ];
    for (above, tables, below) in wrong {
        assert!(alarms(|| read_checker.check_order(KEY, &of(above, tables, below))), "{above:?} {tables:?} {below:?}");
    }
    let in_memory =
        |seq| ObservedLayers { above: vec![ObservedRecord::new(Some(b"4"), Some(seq))], ..ObservedLayers::default() };
    read_checker.check_order(KEY, &in_memory(4));
    assert!(alarms(|| read_checker.check_order(KEY, &in_memory(3))), "its sequence is another's");
}

#[test]
fn a_scan_passes_over_no_record() {
    let read_checker = ReadChecker::new(true, false);
    let since = read_checker.now();
    [b"a", b"b", b"c"].iter().for_each(|key| write(&read_checker, &key[..], Some(b"1"), 1));
    let later = read_checker.now();
    let left = |low: Bound<&[u8]>, high: Bound<&[u8]>| {
        RemainingRange::new((low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec)))
    };
    let all = left(Bound::Unbounded, Bound::Unbounded);
    for (direction, first, second) in [(Direction::Up, b"a", b"b"), (Direction::Down, b"c", b"b")] {
        read_checker.check_scan_step(later, &all, direction, Some((first, b"1")));
        read_checker.check_scan_step(since, &all, direction, Some((second, b"1")));
        assert!(alarms(|| read_checker.check_scan_step(later, &all, direction, Some((second, b"1")))), "{direction:?}");
        assert!(alarms(|| read_checker.check_scan_step(later, &all, direction, Some((first, b"0")))), "{direction:?}");
        assert!(
            alarms(|| read_checker.check_scan_step(
                later,
                &left(Bound::Unbounded, Bound::Included(b"a")),
                direction,
                None
            )),
            "{direction:?}"
        );
        read_checker.check_scan_step(later, &left(Bound::Excluded(b"a"), Bound::Excluded(b"b")), direction, None);
        read_checker.check_scan_step(later, &left(Bound::Excluded(b"a"), Bound::Excluded(b"a")), direction, None);
    }
}

/// A range is superseded from a run that was not converted to pages.
#[test]
fn what_a_floor_hides_is_missed() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    let keyspace = fixture.another_judged(8, Tuning::TINY);
    for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")] {
        fixture.write_to(&keyspace, key, Some(value));
        keyspace.flush(u64::MAX).unwrap();
    }
    assert_eq!(collect(&keyspace, ALL, false).len(), 2);
    let lsm = keyspace.lsm();
    let (youngest, _) = lsm.version().runs().next().unwrap();
    let paged_ranges =
        vec![PagedRangeEdit { lower: b"a".to_vec(), upper: b"b".to_vec(), kind: RangeEditKind::Add(youngest) }];
    let change = VersionEdit { paged_ranges, ..VersionEdit::default() };
    lsm.install(&change, &[], |version| lsm.current.install_version(version)).unwrap();
    assert_eq!(keyspace.get(b"b").unwrap(), Some(b"1".to_vec()));
    assert!(alarms(|| keyspace.get(b"a")));
    assert!(alarms(|| keyspace.multi_get(&[b"a"], &mut |_, _| ())));
    assert!(alarms(|| collect(&keyspace, ALL, false)));
    assert!(alarms(|| collect(&keyspace, ALL, true)));
}
