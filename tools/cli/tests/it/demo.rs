//! The demonstration, in its small size, and many kills.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{BINARY, Place, Run};

fn demo(arguments: &[&str], place: &Place) -> Run {
    let output = Command::new(BINARY).args(["demo", "--small", "--dir"]).arg(place.around()).args(arguments).output();
    Run::of(output.expect("the binary runs"))
}

/// The number in the last line, which has to be `verified N of N acknowledged writes`.
fn verified(run: &Run) -> u64 {
    let last = run.text().lines().next_back().unwrap_or_else(|| panic!("nothing was printed; {}", run.stderr));
    let number =
        last.strip_prefix("verified ").and_then(|rest| rest.split(' ').next()).and_then(|number| number.parse().ok());
    let number: u64 = number.unwrap_or_else(|| panic!("the last line is {last:?}; {}", run.stderr));
    assert_eq!(last, format!("verified {number} of {number} acknowledged writes"));
    number
}

#[test]
fn the_last_line_and_the_table() {
    let place = Place::new();
    let run = demo(&[], &place).good();
    // At least what was loaded; and the victim acknowledged something.
    assert!(verified(&run) > 230_000);
    for words in [
        "load taxa, sorted",
        "insert towns",
        "read, uniform",
        "read, zipf 0.99",
        "scan",
        "killed",
        "budget 32.0 MiB",
        "peak of",
    ] {
        assert!(run.text().contains(words), "{words:?} is not in {}", run.text());
    }
    assert_eq!(fs::read_dir(place.around()).expect("a directory").count(), 0, "the demo left something behind");
}

#[test]
fn a_kept_database_can_be_used() {
    let place = Place::new();
    demo(&["--keep", "--memory", "16MiB"], &place).good();
    let database = fs::read_dir(place.around()).expect("a directory").flatten().next().expect("the database").path();
    let list = Run::of(Command::new(BINARY).arg("list").arg(&database).output().expect("the binary runs")).good();
    assert_eq!(
        list.text().lines().filter_map(|line| line.split('\t').next()).collect::<Vec<_>>(),
        ["cities", "paths", "taxa"]
    );
    let verify = Run::of(Command::new(BINARY).arg("verify").arg(&database).output().expect("the binary runs")).good();
    assert!(verify.text().contains("paths: 10000 records"), "{}", verify.text());
}

/// The lines of the kills.
fn kills_lose_nothing(engine: &str) -> Vec<String> {
    let kills = std::env::var("ECOTONE_KILLS").unwrap_or_else(|_| "5".to_owned());
    let place = Place::new();
    let run = demo(&["--engine", engine, "--kills", &kills], &place).good();
    verified(&run);
    assert!(run.text().contains(&format!("engine {engine}")) && run.text().contains("scan") == (engine != "hash"));
    let lines: Vec<_> =
        run.text().lines().filter(|line| line.starts_with("killed and reopened")).map(str::to_owned).collect();
    assert_eq!(lines.len().to_string(), kills);
    lines
}

#[test]
#[ignore = "long"]
fn kills_at_any_moment_lose_nothing_of_a_tree() {
    kills_lose_nothing("tree");
}

#[test]
#[ignore = "long"]
fn kills_at_any_moment_lose_nothing_of_a_hash_keyspace() {
    kills_lose_nothing("hash");
}

#[test]
#[ignore = "long"]
fn kills_at_any_moment_lose_nothing_of_tables() {
    kills_lose_nothing("lsm");
}

/// Whether there were paged ranges is seen when the database is open again; what was going on, the process has told
/// shortly before.
#[test]
#[ignore = "long"]
fn kills_at_any_moment_lose_nothing_of_what_changes_its_shape() {
    let told = kills_lose_nothing("adaptive");
    let with = |words: &str| told.iter().filter(|line| line.contains(words)).count();
    println!("{told:#?}");
    assert!(told.iter().any(|line| !line.contains(", 0 paged ranges")), "no kill met paged ranges: {told:?}");
    // What went on just before is told of a kill in five: that says something of many alone.
    for words in ["converting-to-pages", "converting-to-tables"] {
        assert!(with(words) > 0 || told.len() < 50, "no kill met {words}: {told:?}");
    }
}

#[test]
fn a_place_that_cannot_be_used() {
    let run = |directory: &str| {
        Run::of(Command::new(BINARY).args(["demo", "--small", "--dir", directory]).output().expect("the binary runs"))
    };
    run("/no/such/place").fails(1, &["/no/such/place", "--dir"]);
}

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The command lines of the processes that work in a directory.
fn processes(directory: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc")
        .expect("Linux")
        .flatten()
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = all.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(directory.to_str().expect("text"))).collect()
}

/// What Ctrl-C sends, or, where whoever started the tests in the background has had that ignored, what `kill` does.
fn interrupt() -> Signal {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a line for it");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a mask");
    if ignored >> (Signal::INT.as_raw() - 1) & 1 == 1 { Signal::TERM } else { Signal::INT }
}

#[test]
fn whoever_ends_it_finds_nothing_left() {
    let is_there = |path: &Path| fs::read_dir(path).expect("a directory").next().is_some();
    for (signal, moment) in [(interrupt(), "demo-sweeper"), (interrupt(), "demo-victim"), (Signal::KILL, "demo-victim")]
    {
        let place = Place::new();
        let mut command = Command::new(BINARY);
        command.args(["demo", "--small", "--kills", "20", "--dir"]).arg(place.around()).stdout(Stdio::null());
        let mut demo = command.spawn().expect("the binary runs");
        let has = |name: &str| processes(place.around()).iter().any(|line| line.contains(name));
        wait_until(moment, || has(moment));
        thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(&demo), signal).expect("it runs");
        assert!(!demo.wait().expect("it ends").success());
        wait_until("its directory is gone", || !is_there(place.around()));
        wait_until("its processes are gone", || processes(place.around()).is_empty());
        // No process is left that could have made another file meanwhile.
        assert!(!is_there(place.around()), "{signal:?} at {moment}");
    }
}
