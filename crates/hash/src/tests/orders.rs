//! All orders of a few operations on one key, within a number of preemptions, by loom (hash-protocol.md, M4).

use ecotone_engine::contract::UpdateAction;
use ecotone_sys::primitive::orders::{self, spawn};

use super::*;

const KEY: &[u8] = b"k";

/// Tries the orders of `work` with at most `preemptions` preemptions. Each begins with an engine in which the key has
/// `value`, if given.
fn all_orders(preemptions: usize, value: Option<&'static [u8]>, work: impl Fn(Arc<Hash>) + Send + Sync + 'static) {
    let begin = move || {
        let hash = engine(0, 4);
        fill_up(&hash);
        value.iter().for_each(|value| hash.set(KEY, value));
        hash
    };
    orders::all_orders(preemptions, begin, work);
}

/// Appends a byte to the value.
fn extend(hash: &Hash, byte: u8) {
    let change = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
        old.iter().for_each(|old| new.extend_from_slice(old));
        new.push(byte);
        UpdateAction::Store
    };
    hash.modify(KEY, change).unwrap();
}

fn one_of(hash: &Hash, values: &[&[u8]]) {
    let value = hash.value(KEY).expect("it has a value");
    assert!(values.contains(&&value[..]), "{value:?}");
}

/// The test fails if a record is locked although it has changed since it was read.
#[test]
fn two_updates_in_place_see_one_another() {
    all_orders(3, Some(b"0"), |hash| {
        let other = spawn(&hash, |hash| extend(hash, b'1'));
        extend(&hash, b'2');
        other.join().unwrap();
        one_of(&hash, &[b"012", b"021"]);
    });
}

/// The test fails if a conditional insert does not check the new records of the chain.
#[test]
fn two_updates_of_a_key_without_a_value_see_one_another() {
    all_orders(3, None, |hash| {
        let other = spawn(&hash, |hash| extend(hash, b'1'));
        extend(&hash, b'2');
        other.join().unwrap();
        one_of(&hash, &[b"12", b"21"]);
    });
}

/// One operation needs a longer record, the other does not. The test fails if a record is not sealed before the next
/// one is appended.
#[test]
fn trap_10_an_update_that_moves_a_record_sees_one_in_place() {
    all_orders(3, Some(b"0000000"), |hash| {
        let other = spawn(&hash, |hash| extend(hash, b'2'));
        let mark = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
            new.extend_from_slice(old.expect("it has a value"));
            new[0] = b'1';
            UpdateAction::Store
        };
        hash.modify(KEY, mark).unwrap();
        other.join().unwrap();
        one_of(&hash, &[b"10000002"]);
    });
}

/// The test fails like the one before.
#[test]
fn an_update_beside_a_blind_write_is_before_it_or_sees_it() {
    all_orders(2, Some(b"0000000"), |hash| {
        let other = spawn(&hash, |hash| hash.set(KEY, b"1"));
        extend(&hash, b'2');
        other.join().unwrap();
        one_of(&hash, &[b"1", b"12"]);
    });
}

/// The test fails like the one before.
#[test]
fn an_update_beside_a_delete_brings_nothing_back() {
    all_orders(2, Some(b"0000000"), |hash| {
        let other = spawn(&hash, |hash| hash.remove(KEY));
        let change = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
            old.iter().for_each(|old| new.extend_from_slice(old));
            new.push(b'1');
            if old.is_some() { UpdateAction::Store } else { UpdateAction::Keep }
        };
        hash.modify(KEY, change).unwrap();
        other.join().unwrap();
        assert_eq!(hash.value(KEY), None);
    });
}

/// A record that was mutable when it was read is read-only when it is written, or becomes so. The test fails like the
/// first one.
#[test]
fn updates_beside_a_shift_see_one_another() {
    all_orders(2, Some(b"0"), |hash| {
        let other = spawn(&hash, |hash| extend(hash, b'1'));
        hash.chains.log.raise_read_only(hash.chains.log.close_page());
        extend(&hash, b'2');
        other.join().unwrap();
        one_of(&hash, &[b"012", b"021"]);
    });
}

/// A write that found the record mutable reaches it when another has given it up. The test fails if a seal does not
/// mark that.
#[test]
fn a_blind_write_beside_a_shift_is_not_lost() {
    all_orders(2, Some(b"0"), |hash| {
        let other = spawn(&hash, |hash| hash.set(KEY, b"b"));
        hash.chains.log.raise_read_only(hash.chains.log.close_page());
        extend(&hash, b'2');
        other.join().unwrap();
        one_of(&hash, &[b"b", b"b2"]);
    });
}

/// Other keys, which share the one bucket of the index.
const OTHERS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// M8 with the engine's own writes: `work` runs on a key without a value while the index grows, and no other key is
/// lost.
fn beside_growth(work: impl Fn(&Arc<Hash>) + Send + Sync + 'static) {
    let begin = || {
        let hash = engine(0, 4);
        fill_up(&hash);
        OTHERS.iter().for_each(|key| hash.set(key, b"x"));
        hash
    };
    orders::all_orders(1, begin, move |hash| {
        let grower = spawn(&hash, |hash| hash.chains.index.grow(|| hash.reservations.lease().ok()));
        work(&hash);
        assert!(grower.join().unwrap() && hash.chains.index.buckets() == 2);
        OTHERS.iter().for_each(|key| assert_eq!(hash.value(key).as_deref(), Some(&b"x"[..])));
    });
}

/// The test fails if a word of a bucket under split can still be written.
#[test]
fn a_blind_write_beside_growth_is_not_lost() {
    beside_growth(|hash| {
        hash.set(KEY, b"1");
        assert_eq!(hash.value(KEY).as_deref(), Some(&b"1"[..]));
    });
}

/// The same for a conditional insert.
#[test]
fn an_update_of_a_key_without_a_value_beside_growth_is_not_lost() {
    beside_growth(|hash| {
        extend(hash, b'1');
        assert_eq!(hash.value(KEY).as_deref(), Some(&b"1"[..]));
    });
}

/// The same for a delete, whose index entry stays.
#[test]
fn a_delete_beside_growth_stays() {
    beside_growth(|hash| {
        hash.set(KEY, b"1");
        hash.remove(KEY);
        assert_eq!(hash.value(KEY), None);
    });
}
