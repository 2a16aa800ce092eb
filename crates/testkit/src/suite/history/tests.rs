use super::*;
use crate::model::Ending;

/// A call on `register` from one moment to another; an end of 0 means that the call was not answered.
fn event(register: usize, act: Act, (invoked, answered): (Tick, Tick), promise: Level) -> Event {
    let answered = (answered > 0).then_some(answered);
    Event { register, act, invoked, answered, promise: if answered.is_some() { promise } else { Level::InDoubt } }
}

fn read(value: Value, span: (Tick, Tick)) -> Event {
    event(0, Act::Read(value), span, Level::None)
}

fn write(register: usize, number: u32, span: (Tick, Tick), promise: Level) -> Event {
    event(register, Act::Write(Some(number)), span, promise)
}

fn right(events: &[Event]) -> bool {
    linearizable(&[None], events).is_ok()
}

#[test]
fn a_read_sees_what_was_written_last_or_is_being_written() {
    let first = write(0, 1, (1, 2), Level::Buffered);
    let overlapping = write(0, 2, (3, 6), Level::Buffered);
    for (seen, span, expected) in [
        (Some(1), (3, 4), true),
        (Some(2), (4, 5), true),
        (None, (4, 5), false),
        (Some(1), (7, 8), false),
        (Some(2), (7, 8), true),
        (Some(3), (7, 8), false),
    ] {
        assert_eq!(right(&[first, overlapping, read(seen, span)]), expected, "{seen:?} at {span:?}");
    }
}

#[test]
fn two_reads_agree_on_the_order_of_writes() {
    let writes = [write(0, 1, (1, 20), Level::Buffered), write(0, 2, (2, 20), Level::Buffered)];
    let with = |reads: [Event; 3]| right(&[writes.as_slice(), reads.as_slice()].concat());
    assert!(with([read(Some(1), (3, 4)), read(Some(2), (5, 6)), read(Some(2), (7, 8))]));
    assert!(!with([read(Some(1), (3, 4)), read(Some(2), (5, 6)), read(Some(1), (7, 8))]));
}

#[test]
fn conditional_writes_see_the_value_that_they_replace() {
    let replace = |before, after, span| event(0, Act::Replace { before, after }, span, Level::Buffered);
    let refused = |expected, span| event(0, Act::Refused(expected), span, Level::None);
    assert!(right(&[replace(None, Some(1), (1, 5)), replace(Some(1), Some(2), (2, 5)), read(Some(2), (6, 7))]));
    assert!(!right(&[replace(None, Some(1), (1, 5)), replace(None, Some(2), (2, 5))]), "a lost update");
    assert!(right(&[replace(None, Some(1), (1, 3)), refused(None, (2, 4))]));
    assert!(!right(&[replace(None, Some(1), (1, 3)), refused(Some(1), (4, 5))]));
}

#[test]
fn a_write_without_an_answer_happens_late_or_never() {
    let lost = write(0, 1, (1, 0), Level::Buffered);
    assert!(right(&[lost, read(None, (2, 3)), read(Some(1), (4, 5))]));
    assert!(right(&[lost, read(None, (2, 3)), read(None, (4, 5))]));
    assert!(!right(&[lost, read(Some(1), (2, 3)), read(None, (4, 5))]));
}

#[test]
fn what_outlives_an_end_is_there_and_the_rest_is_a_prefix() {
    let events = [
        write(0, 1, (1, 2), Level::Sync),
        write(1, 2, (3, 4), Level::Buffered),
        write(0, 3, (5, 6), Level::Buffered),
        write(1, 4, (7, 0), Level::Buffered),
    ];
    let judge = |ending, recovered: [Value; 2]| survives(&[None; 2], &events, ending, &recovered).is_ok();
    for (recovered, power_loss, process_death) in [
        ([Some(1), None], true, false),
        ([Some(1), Some(2)], true, false),
        ([Some(3), Some(2)], true, true),
        ([Some(3), Some(4)], true, true),
        ([None, None], false, false),
        ([Some(3), None], false, false),
        ([Some(1), Some(4)], false, false),
    ] {
        assert_eq!(judge(Ending::PowerLoss, recovered), power_loss, "{recovered:?}");
        assert_eq!(judge(Ending::ProcessDeath, recovered), process_death, "{recovered:?}");
    }
}

#[test]
fn a_value_that_was_read_may_be_lost_but_not_one_below_a_sync() {
    let mut events = vec![write(0, 1, (1, 2), Level::Buffered), read(Some(1), (3, 4))];
    let judge = |events: &[Event], recovered| survives(&[None], events, Ending::PowerLoss, &[recovered]).is_ok();
    assert!(judge(&events, None) && judge(&events, Some(1)));
    synced(&mut events, 5);
    assert!(!judge(&events, None) && judge(&events, Some(1)));
}

#[test]
fn a_batch_is_there_whole_or_not_at_all() {
    let events = [
        write(0, 1, (1, 8), Level::Buffered),
        write(1, 1, (1, 8), Level::Buffered),
        write(0, 2, (2, 9), Level::Buffered),
        write(2, 3, (10, 11), Level::Buffered),
    ];
    let judge = |recovered: [Value; 3]| survives(&[None; 3], &events, Ending::PowerLoss, &recovered).is_ok();
    assert!(judge([None, None, None]) && judge([Some(1), Some(1), None]) && judge([Some(2), Some(1), Some(3)]));
    assert!(judge([Some(2), None, None]), "the single write came first");
    assert!(!judge([Some(1), None, None]), "half of the batch");
    assert!(!judge([None, Some(1), None]), "the other half");
    assert!(!judge([Some(2), None, Some(3)]), "a later write without the batch");
}

#[test]
fn a_history_of_a_hundred_overlapping_writes_is_judged_in_no_time() {
    let writes = (0..100u64).map(|i| write(0, i as u32, (10 * i + 1, 10 * i + 35), Level::Buffered));
    let reads = (0..100u64).map(|i| read(Some(i as u32), (10 * i + 32, 10 * i + 34)));
    let mut events: Vec<Event> = writes.chain(reads).collect();
    assert!(right(&events));
    events.push(read(Some(3), (2000, 2001)));
    assert!(!right(&events));
}
