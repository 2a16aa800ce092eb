//! Write stalls: writers are slowed down when the background is behind.

use std::sync::Arc;

use ecotone_engine::contract::Engine;
use ecotone_substrate::{Seq, clock::SystemClock, memory::Component};
use ecotone_sys::chunk::Size;
use ecotone_testkit::engine::stat;

use crate::{
    compaction::throttle::{
        compaction_throttle::pause_after,
        write_stall::{L0_SLOWDOWN_TRIGGER, MAX_IMMUTABLE_MEMTABLES, memtable_stall_fraction},
    },
    memtable::pool::MemtableOwner,
    table::IndexKind,
    tests::fixture::Fixture,
    tuning::Tuning,
};

/// L0 runs at which writers stop, and at which writers compact themselves if there is no background.
const RUNS: u64 = 16;

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9E37_79B9).to_be_bytes()
}

fn write(fixture: &Fixture, number: u32) {
    fixture.write(&key(number), Some(&[number as u8; 100]));
}

#[test]
fn runs_count_from_the_eighth_on_and_no_longer_when_they_are_compacted() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    for run in 0..RUNS {
        (0..20).for_each(|number| write(&fixture, 20 * run as u32 + number));
        fixture.flush();
        let runs = fixture.stat("runs");
        // Their bytes count too, but are few.
        assert!(
            runs == run + 1 && (fixture.stall_fraction() - runs.saturating_sub(8) as f64 / 8.0).abs() < 0.01,
            "{}",
            fixture.stall_fraction()
        );
    }
    write(&fixture, 0);
    fixture.flush();
    assert!(fixture.stat("runs") < RUNS, "nobody compacts in the background");
    while fixture.environment.scheduler.run_one() {}
    assert_eq!(
        (fixture.stall_fraction(), fixture.stat("writer_delays")),
        (0.0, 0),
        "nobody is delayed where nobody would catch up"
    );
}

/// Without a flush, memtables fill until writers have to flush themselves. Before that, writers are slowed down
/// (compaction-pace.md, invariant 15).
#[test]
fn writers_are_slowed_down_before_they_have_to_wait_for_a_flush() {
    let fixture = Fixture::threaded(1, 1);
    let lsm = fixture.keyspace.lsm();
    // Holding the lock keeps flushes out.
    let _guard = lsm.flusher.lock.lock();
    let mut fractions = Vec::new();
    for number in 0.. {
        let (filled, waiting, full) = lsm.fill_level();
        fractions.push(memtable_stall_fraction(filled, waiting));
        if waiting >= MAX_IMMUTABLE_MEMTABLES && full.is_some() {
            break;
        }
        write(&fixture, number);
    }
    assert_eq!((fractions.first(), fractions.last()), (Some(&0.0), Some(&1.0)), "from no delay to the longest");
    assert!(fractions.windows(2).all(|two| two[1] - two[0] < 0.1), "the delay does not jump");
    assert!(fixture.stat("writer_delays") > 0);
}

/// Without compaction, L0 grows until a flush has to compact it itself. Before that, writers are slowed down, and
/// compaction does not sleep (compaction-pace.md, invariants 3 and 15).
#[test]
fn writers_are_slowed_down_before_a_flush_has_to_wait_for_a_compaction() {
    let fixture = Fixture::threaded(1, 1);
    let lsm = fixture.keyspace.lsm();
    // Holding the lock keeps compactions out.
    let _guard = lsm.compactor.lock.lock();
    for run in 1..=RUNS {
        write(&fixture, run as u32);
        fixture.flush();
        let (pause, fraction) = (pause_after(lsm.throttle.stall.debt_ratio(), 1_000_000), fixture.stall_fraction());
        let is_late = run > L0_SLOWDOWN_TRIGGER as u64;
        assert!((pause > 0) == (run < L0_SLOWDOWN_TRIGGER as u64) && (fraction > 0.0) == is_late, "{run}: {fraction}");
        assert!(is_late || fixture.stat("writer_delays") == 0);
    }
    assert_eq!((fixture.stat("runs"), fixture.stall_fraction()), (RUNS, 1.0));
    write(&fixture, 0);
    assert!(fixture.stat("writer_delays") > 0);
}

/// This test uses the machine's clock, since with a simulated one a sleep does not wait.
#[test]
fn writers_come_to_rest_with_their_background() {
    let fixture = Fixture::threaded(1, 2);
    let keyspace = fixture.another_by(Arc::new(SystemClock::default()), 4, Tuning::TINY);
    let stat = |name| stat(&keyspace.stats(), name);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (fixture, keyspace) = (&fixture, &keyspace);
            scope.spawn(move || {
                for number in 0..20_000 {
                    fixture.write_to(keyspace, &key(3 * number + thread), Some(&[7; 100]));
                    let runs = if number % 50 == 0 { stat("runs") } else { 0 };
                    assert!(runs < 2 * RUNS, "{runs} runs");
                }
            });
        }
    });
    assert!(stat("flushes") > 50);
    // Memtables of one slab are full before the background begins, so writers are slowed down.
    assert!(stat("writer_delays") > 0);
}

/// A flush for lack of memory also starts the compactions that become due, like any flush.
#[test]
fn runs_that_want_of_memory_makes_are_compacted() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    for run in 0..10 {
        (0..20).for_each(|number| write(&fixture, 20 * run + number));
        assert!(MemtableOwner::free_memtable_memory(fixture.keyspace.lsm().clone()).unwrap());
    }
    assert_eq!(fixture.stat("runs"), 10);
    while fixture.environment.scheduler.run_one() {}
    assert!(fixture.stat("runs") < 8, "{} runs", fixture.stat("runs"));
}

/// Thousands of keyspaces may have some records each, which are flushed when the log is long. Rotating their memtables
/// takes no memory.
#[test]
fn a_small_memtable_that_waits_for_its_flush_leaves_no_large_slab() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    (0..20).for_each(|number| write(&fixture, number));
    let memory = || fixture.environment.memory.used(&[Component::Memtable]);
    let before = memory();
    fixture.keyspace.lsm().begin_flush(Seq::MAX).unwrap();
    assert!(memory() <= before, "{} bytes, {before} before", memory());
    write(&fixture, 20);
    assert!(memory() <= before + Size::Frame.bytes(), "{} bytes, {before} before", memory());
}
