//! How the log grows, freezes, and leaves memory.

use std::sync::Mutex;

use super::*;

fn append(log: &HotLog, number: u64) -> Option<Address> {
    let pin = log.domain.pin();
    let raw = log.allocate(&number.to_le_bytes(), Some(&[number as u8; 100]), &pin)?;
    let address = raw.address();
    raw.made_known();
    Some(address)
}

fn read(log: &HotLog, address: Address) -> Option<(RecordHeader, Vec<u8>)> {
    let (pin, mut value) = (log.domain.pin(), Vec::new());
    let state = log.record(address, &pin)?.read(&mut value);
    Some((state, value))
}

#[test]
fn it_grows_frame_by_frame_and_what_left_is_told_from_what_is_there() {
    const ROUNDS: u64 = 9;
    let (arena, returned) = (arena(), Arc::new(Mutex::new(Vec::new())));
    let (_, log) = log(&arena, 4);
    let mut known = Vec::new();
    for round in 0..ROUNDS {
        while let Some(address) = append(&log, known.len() as u64) {
            known.push(address);
        }
        let end = Address::new((round + 4) * FRAME);
        assert!(log.tail() <= end && log.tail().page_end() == end);
        log.raise_read_only(Address::new((round + 1) * FRAME));
        let next = log.enter(round + 4, block(&arena)).expect_err("its place is taken");
        log.truncate(Address::new((round + 1) * FRAME), {
            let returned = returned.clone();
            move |block| returned.lock().unwrap().push(block.len())
        });
        log.enter(round + 4, next).unwrap();
        for (number, address) in known.iter().enumerate() {
            let found = read(&log, *address).map(|(_, value)| value);
            assert_eq!(found, (*address >= log.bounds().head()).then(|| vec![number as u8; 100]));
        }
    }
    assert_eq!(*returned.lock().unwrap(), vec![FRAME as usize; ROUNDS as usize]);
    assert!(
        known.is_sorted() && known.len() as u64 == ((ROUNDS + 3) * 16 - 1) * 31,
        "31 records a page of which the first is not used"
    );
}

/// A thread that found a record keeps it while pinned, though its frame has left memory.
#[test]
fn trap_05_a_frame_under_a_pin_is_not_used_again() {
    let (arena, returned) = (arena(), Arc::new(Mutex::new(0)));
    let (domain, log) = log(&arena, 2);
    let address = append(&log, 7).unwrap();
    while append(&log, 1).is_some() {}
    let end = Address::new(FRAME);
    log.raise_read_only(end);
    let (pin, mut value) = (domain.pin(), Vec::new());
    let record = log.record(address, &pin).unwrap();
    log.truncate(end, {
        let returned = returned.clone();
        move |_| *returned.lock().unwrap() += 1
    });
    assert!(log.record(address, &pin).is_none() && log.bounds().begin() == end);
    record.read(&mut value);
    assert!(record.has_key(&7u64.to_le_bytes()) && value == [7; 100]);
    assert_eq!((*returned.lock().unwrap(), log.bounds().clearable()), (0, Address::FIRST));
    drop(pin);
    domain.drain();
    assert_eq!((*returned.lock().unwrap(), log.bounds().clearable()), (1, end));
}

#[test]
fn a_page_below_safe_gives_its_records_and_those_given_up() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let first = append(&log, 1).unwrap();
    {
        let pin = domain.pin();
        drop(log.allocate(b"in vain", None, &pin));
    }
    let last = append(&log, 2).unwrap();
    let end = log.close_page();
    log.raise_read_only(end);
    let pin = domain.pin();
    let found: Vec<_> =
        log.page(Address::FIRST, &pin).map(|(address, record)| (address, record.state().kind())).collect();
    let given_up = first.plus(Record::bytes(14));
    assert_eq!(found, [(first, HeaderKind::Value), (given_up, HeaderKind::Invalid), (last, HeaderKind::Value)]);
    assert_eq!(append(&log, 3), Some(end.plus(PAGE_HEADER)));
}

#[test]
fn safe_follows_when_nobody_is_pinned_who_may_still_change_a_record() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    while log.tail() < Address::new(2 * PAGE) {
        append(&log, 7).unwrap();
    }
    let pin = domain.pin();
    append(&log, 8).unwrap();
    let end = log.close_page();
    log.raise_read_only(end);
    assert_eq!(
        (log.bounds().read_only(), log.bounds().safe()),
        (end, Address::FIRST),
        "who is pinned may still change it"
    );
    drop(pin);
    assert_eq!(log.bounds().safe(), end);
    let pin = domain.pin();
    let count = |page| log.page(page, &pin).count();
    assert_eq!((count(Address::FIRST), count(Address::new(2 * PAGE))), (31, 2));
}

#[test]
fn positions_rise_and_what_may_be_cleared_follows_a_grace() {
    let arena = arena();
    let (domain, log) = log(&arena, 2);
    append(&log, 1).unwrap();
    let end = log.close_page();
    log.raise_read_only(end);
    let pin = domain.pin();
    log.truncate(end, drop);
    assert_eq!((log.bounds().begin(), log.bounds().clearable()), (end, Address::FIRST));
    drop(pin);
    log.truncate(Address::FIRST, drop);
    assert_eq!((log.bounds().begin(), log.bounds().clearable()), (end, end));
}
