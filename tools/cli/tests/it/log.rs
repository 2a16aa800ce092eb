//! What `ECOTONE_LOG=debug` tells of the background, with sizes and times.

use std::{
    io,
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use ecotone::{Database, Engine, Hint, KeyspaceOptions, Shape};

use crate::harness::{BINARY, Place, Run};

/// Asserts that each of these is told at the level of debugging, with how long it took.
fn assert_told(log: &str, wanted: &[&str]) {
    for words in wanted {
        let line =
            log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words:?} is not told in {log}"));
        assert!(line.contains("DEBUG") && line.contains("took="), "{line}");
    }
}

/// A load of 40 MB with 16 MiB of memory, and its log.
fn load(place: &Place, engine: &str, level: &str) -> String {
    let lines: String = (0..40_000).map(|number| format!("{:07}\n", number * 7_919 % 40_009)).collect();
    let input = place.file("input", lines.as_bytes());
    let mut command = Command::new(BINARY);
    command.arg("load").arg(place.path()).arg(input).env("ECOTONE_LOG", level);
    command.args(["--memory", "16MiB", "--engine", engine, "--value", &"v".repeat(1000)]);
    let run = Run::of(command.output().expect("the binary runs"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stderr
}

#[test]
#[ignore = "long"]
fn flushes_write_out_compactions_and_reclaims_are_told_at_debug_alone() {
    let all = [
        ("tree", &["wrote out dirty pages", "reclaimed the log", "made a checkpoint"][..]),
        ("lsm", &["flushed a memtable", "compacted tables", "reclaimed the log"]),
        ("hash", &["done: compact a hot log", "reclaimed the log"]),
    ];
    for (engine, wanted) in all {
        assert_told(&load(&Place::new(), engine, "debug"), wanted);
    }
    let place = Place::new();
    let info = load(&place, "lsm", "info");
    assert!(info.contains("opened the directory") && !info.contains("DEBUG") && !info.contains("took="), "{info}");
}

/// What this process logs.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().expect("no test panics while it logs").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn conversions_are_told() {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
    subscriber.with_ansi(false).with_writer(|| Log).init();
    let place = Place::new();
    let database = Database::builder(place.path()).open().expect("it opens");
    let options = KeyspaceOptions::default().engine(Engine::Adaptive);
    let keyspace = database.keyspace("default", options).expect("it is made");
    (0..2000).for_each(|number| keyspace.insert(format!("key-{number:04}"), "value").expect("there is room"));
    database.flush().expect("there is room");
    for (hint, is_converted) in [(Hint::ReadMostly, true), (Hint::WriteMostly, false)] {
        keyspace.hint("key-0500".."key-1000", hint).expect("the bounds are in order");
        let began = Instant::now();
        while keyspace.shapes().iter().any(|range| range.shape == Shape::Pages) != is_converted {
            assert!(began.elapsed() < Duration::from_secs(60), "{hint:?} does nothing");
            thread::sleep(Duration::from_millis(10));
        }
    }
    database.close().expect("there is room");
    let log = String::from_utf8_lossy(&LOG.lock().expect("no test panics while it logs")).into_owned();
    assert_told(&log, &["converted tables of a range to pages", "converted pages of a range to tables"]);
}
