//! The ledger is fed what is wrong, and raises the alarm.

use std::{
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::world::{ALL, World, collect};
use crate::{
    engine::Engine,
    lsm::{
        family::Sizes,
        ledger::{Layers, Ledger, Met},
        structure::{Become, Change, CoverEdit},
        table::Kind,
    },
    rest::{Direction, Rest},
};

const KEY: &[u8] = b"key";

/// Whether something raises the alarm.
fn alarms<T>(judged: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(judged)).is_err()
}

fn write(ledger: &Ledger, key: &[u8], value: Option<&[u8]>, seq: u64) {
    ledger.begin(key, value, seq);
    ledger.end(key, true);
}

/// A key that was written three times, and deleted before the last.
fn written() -> Ledger {
    let ledger = Ledger::new(true, false);
    for (seq, value) in [(1, Some(&b"1"[..])), (2, Some(&b"2"[..])), (3, None), (4, Some(&b"4"[..]))] {
        write(&ledger, KEY, value, seq);
    }
    ledger
}

#[test]
fn a_read_gives_what_was_the_newest_since_it_began() {
    let ledger = Ledger::new(true, false);
    let since = ledger.now();
    write(&ledger, KEY, Some(b"1"), 1);
    let later = ledger.now();
    ledger.begin(KEY, Some(b"2"), 2);
    for value in [None, Some(&b"1"[..]), Some(&b"2"[..])] {
        ledger.gave(since, KEY, value);
    }
    assert!(alarms(|| ledger.gave(since, KEY, Some(b"3"))), "nobody wrote it");
    [b"1", b"2"].iter().for_each(|value| ledger.gave(later, KEY, Some(&value[..])));
    assert!(alarms(|| ledger.gave(later, KEY, None)), "it was written before the read");
    ledger.end(KEY, true);
    ledger.gave(later, KEY, Some(b"1"));
    assert!(alarms(|| ledger.gave(ledger.now(), KEY, Some(b"1"))), "it was replaced before the read");
    ledger.begin(KEY, None, 3);
    ledger.end(KEY, false);
    assert!(alarms(|| ledger.gave(later, KEY, None)), "the delete was not made");
    ledger.gave(later, b"other", None);
    assert!(alarms(|| ledger.gave(later, b"other", Some(b"1"))), "nobody wrote the key");
}

#[test]
fn what_was_before_the_ledger_began_is_not_judged() {
    let ledger = Ledger::new(false, false);
    [None, Some(&b"1"[..])].into_iter().for_each(|value| ledger.gave(ledger.now(), KEY, value));
    write(&ledger, KEY, Some(b"1"), 1);
    assert!(alarms(|| ledger.gave(ledger.now(), KEY, None)), "it was replaced before the read");
    let tables = |values: [&'static [u8]; 3]| Layers {
        tables: values.map(|value| Met::new(Some(value), None)).to_vec(),
        ..Layers::default()
    };
    ledger.judge(KEY, &tables([b"1", b"0", b"before"]));
    assert!(alarms(|| ledger.judge(KEY, &tables([b"0", b"1", b"before"]))), "what was before is older");
    ledger.replayed();
    ledger.judge(KEY, &tables([b"0", b"1", b"before"]));
    write(&ledger, KEY, Some(b"2"), 2);
    assert!(alarms(|| ledger.judge(KEY, &tables([b"1", b"2", b"before"]))), "what was replayed is older");
    assert!(ledger.knows(KEY) && !ledger.knows(b"other"));
    let ledger = written();
    assert!(ledger.knows(KEY) && ledger.knows(b"other"));
    ledger.forget(b"a", b"z");
    assert!(!ledger.knows(KEY) && !ledger.knows(b"other"));
    ledger.gave(ledger.now(), KEY, Some(b"loaded"));
    ledger.gave(ledger.now(), b"other", Some(b"loaded"));
}

#[test]
fn records_of_a_key_grow_older_from_layer_to_layer() {
    let ledger = written();
    let met = |value: &u8| Met::new((*value != b'3').then_some(std::slice::from_ref(value)), None);
    let of = |above: &[u8], tables: &[u8], below: Option<u8>| Layers {
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
        ledger.judge(KEY, &of(above, tables, below));
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
        assert!(alarms(|| ledger.judge(KEY, &of(above, tables, below))), "{above:?} {tables:?} {below:?}");
    }
    let in_memory = |seq| Layers { above: vec![Met::new(Some(b"4"), Some(seq))], ..Layers::default() };
    ledger.judge(KEY, &in_memory(4));
    assert!(alarms(|| ledger.judge(KEY, &in_memory(3))), "its sequence is another's");
}

#[test]
fn a_scan_passes_over_no_record() {
    let ledger = Ledger::new(true, false);
    let since = ledger.now();
    [b"a", b"b", b"c"].iter().for_each(|key| write(&ledger, &key[..], Some(b"1"), 1));
    let later = ledger.now();
    let left = |low: Bound<&[u8]>, high: Bound<&[u8]>| Rest::new((low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec)));
    let all = left(Bound::Unbounded, Bound::Unbounded);
    for (direction, first, second) in [(Direction::Up, b"a", b"b"), (Direction::Down, b"c", b"b")] {
        ledger.passed(later, &all, direction, Some((first, b"1")));
        ledger.passed(since, &all, direction, Some((second, b"1")));
        assert!(alarms(|| ledger.passed(later, &all, direction, Some((second, b"1")))), "{direction:?}");
        assert!(alarms(|| ledger.passed(later, &all, direction, Some((first, b"0")))), "{direction:?}");
        assert!(
            alarms(|| ledger.passed(later, &left(Bound::Unbounded, Bound::Included(b"a")), direction, None)),
            "{direction:?}"
        );
        ledger.passed(later, &left(Bound::Excluded(b"a"), Bound::Excluded(b"b")), direction, None);
        ledger.passed(later, &left(Bound::Excluded(b"a"), Bound::Excluded(b"a")), direction, None);
    }
}

/// A floor at a run that nobody has absorbed.
#[test]
fn what_a_floor_hides_is_missed() {
    let world = World::new(1, Kind::Linear);
    let keyspace = world.another_judged(8, Sizes::TINY);
    for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")] {
        world.write_to(&keyspace, key, Some(value));
        keyspace.flush(u64::MAX).unwrap();
    }
    assert_eq!(collect(&keyspace, ALL, false).len(), 2);
    let lsm = keyspace.lsm();
    let (youngest, _) = lsm.version().runs().next().unwrap();
    let covers = vec![CoverEdit { lower: b"a".to_vec(), upper: b"b".to_vec(), becomes: Become::Covered(youngest) }];
    let change = Change { covers, ..Change::default() };
    lsm.install(&change, &[], |version| lsm.present.installed(version)).unwrap();
    assert_eq!(keyspace.get(b"b").unwrap(), Some(b"1".to_vec()));
    assert!(alarms(|| keyspace.get(b"a")));
    assert!(alarms(|| keyspace.multi_get(&[b"a"], &mut |_, _| ())));
    assert!(alarms(|| collect(&keyspace, ALL, false)));
    assert!(alarms(|| collect(&keyspace, ALL, true)));
}
