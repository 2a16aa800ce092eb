//! Subcompactions: compactions in several parts.

use std::{sync::Arc, thread};

use ecotone_engine::contract::Compactable;
use ecotone_substrate::Error;
use ecotone_testkit::{
    sim::{Phase, SteppedThread},
    suite::ReportRecorder,
};

use crate::{
    table::IndexKind,
    tests::fixture::{Fixture, Model, key},
};

/// A keyspace without levels, in which a compaction is due that is large enough for several parts.
fn due() -> (Fixture, Model) {
    due_in(Fixture::new(1, IndexKind::Linear))
}

fn due_in(fixture: Fixture) -> (Fixture, Model) {
    let mut model = Model::new();
    for run in 0..8 {
        for number in 0..300 {
            let value = (number % 5 != run % 5).then(|| vec![run as u8; 100]);
            fixture.write_both(&mut model, &key(number * (1 + run % 3)), value);
        }
        fixture.flush();
    }
    (fixture, model)
}

#[test]
fn a_job_in_parts_comes_to_what_the_whole_would() {
    let (fixture, model) = due();
    assert!(fixture.keyspace.lsm().compact_next().unwrap());
    assert_eq!((fixture.stat("runs"), fixture.stat("levels"), fixture.stat("compactions")), (0, 1, 1));
    assert!(fixture.stat("compaction_parts") >= 3, "{}", fixture.stat("compaction_parts"));
    assert_eq!((fixture.stat("table_records"), fixture.stat("table_tombstones")), (model.len() as u64, 0));
    assert_eq!(fixture.tables(), fixture.stat("tables"), "what was compacted is gone");
    fixture.expect(&model);
}

#[test]
fn everything_is_the_same_whether_one_thread_compacts_it_or_several() {
    for workers in [1, 3, 6] {
        let (fixture, mut model) = (Fixture::threaded(1, workers), Model::new());
        for round in 0..4 {
            for number in 0..1500 {
                let value = (number % 5 != round).then(|| vec![round as u8; 100]);
                fixture.write_both(&mut model, &key(number * (1 + round)), value);
            }
            fixture.keyspace.compact(&mut |_, _| ()).unwrap();
            let merged = ["levels", "table_tombstones", "table_records"].map(|name| fixture.stat(name));
            assert_eq!(merged, [1, 0, model.len() as u64]);
        }
        assert!(fixture.stat("compaction_parts") > fixture.stat("compactions"));
        fixture.expect(&model);
    }
}

/// Each I/O of a job fails once. Either the job's output is removed and the keyspace is as before, or the output is
/// installed and only replaced inputs may remain. What it leaves out is reported if it is installed (superseded.md,
/// invariant 2).
#[test]
fn a_job_in_parts_that_fails_leaves_no_file_and_reports_nothing() {
    let recorder = Arc::new(ReportRecorder::default());
    let due = || due_in(Fixture::reporting(1, &recorder));
    let whole = due().0;
    let first = whole.disk.io_index();
    recorder.take();
    whole.keyspace.lsm().compact_next().unwrap();
    let (ios, left_out) = (whole.disk.io_index() - first, recorder.take().len());
    assert!(left_out > 500, "{left_out}");
    let mut installed = 0;
    for failure in 0..ios {
        let (fixture, model) = due();
        let tables = fixture.tables();
        fixture.fail_io(failure);
        recorder.take();
        let failed = fixture.keyspace.lsm().compact_next();
        let is_installed = fixture.stat("runs") == 0;
        assert_eq!(recorder.take().len(), if is_installed { left_out } else { 0 }, "I/O {failure}");
        if !is_installed {
            assert!(
                failed.is_err() && fixture.tables() == tables,
                "I/O {failure}: {} of {tables} tables",
                fixture.tables()
            );
        } else {
            installed += 1;
        }
        fixture.expect(&model);
    }
    assert!(ios > 60 && installed < 40, "{installed} of {ios}");
}

/// Writing stops at each I/O of a job. A merge that is not installed reports nothing.
#[test]
fn a_job_that_cannot_be_installed_reports_nothing() {
    let recorder = Arc::new(ReportRecorder::default());
    let stopped_at = |stops: usize| {
        let fixture = due_in(Fixture::reporting(1, &recorder)).0;
        recorder.take();
        thread::scope(|scope| {
            let mut job = SteppedThread::new(scope, &[Phase::Table], || drop(fixture.keyspace.lsm().compact_next()));
            if (0..stops).any(|_| job.step().is_some()) {
                return false;
            }
            fixture.environment.health.poison(Error::Invalid("nothing more".into()));
            job.finish();
            assert!(fixture.stat("runs") == 0 || recorder.take().is_empty(), "stop {stops}");
            true
        })
    };
    assert!((1..).take_while(|stops| stopped_at(*stops)).count() > 30);
}
