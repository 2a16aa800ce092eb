//! Wrong arguments and wrong places: each its own clear error, and no harm done.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, process::Command};

use crate::harness::{BINARY, Place, Run};

#[test]
fn keys_and_values_out_of_bounds() {
    let place = Place::with_lines("a\t1\n");
    place.run("put", &["", "v"]).fails(1, &["the key is empty"]);
    place.run("put", &[&"k".repeat(1025), "v"]).fails(1, &["key", "1025", "limit is 1024"]);
    place.run("put", &["k", &"v".repeat(1900)]).fails(1, &["1901", "limit is 1900"]);
    place.run("get", &[""]).fails(1, &["the length of a key", "must be at least 1"]);
    place.run("put", &["k", "v", "--keyspace", ""]).fails(1, &["keyspace's name", "must be at least 1"]);
    place.run("get", &[&"k".repeat(1025)]).fails(1, &["1025", "limit is 1024"]);
    place.run("delete", &[&"k".repeat(1025)]).fails(1, &["1025", "limit is 1024"]);
    place.run("put", &[&"k".repeat(1024), &"v".repeat(876)]).good();
    assert_eq!(place.run("get", &["a"]).good().text(), "1\n");
}

#[test]
fn a_record_out_of_bounds_makes_no_database() {
    let place = Place::new();
    place.run("put", &["", "v"]).fails(1, &["the key is empty"]);
    place.run("put", &["k", &"v".repeat(1900)]).fails(1, &["1901", "limit is 1900"]);
    assert!(!place.path().exists());
}

#[test]
fn wrong_use_has_exit_code_2() {
    let place = Place::with_lines("a\t1\n");
    place.run("get", &["0g", "--hex"]).fails(2, &["0g", "hexadecimal"]);
    place.run("get", &["minus one", "--u64"]).fails(2, &["minus one", "decimal integer"]);
    place.run("get", &[]).fails(2, &["Usage"]);
    place.run("get", &["a", "--memory", "much"]).fails(2, &["much"]);
    place.run("load", &["--format", "xml"]).fails(2, &["xml", "tsv"]);
    place.run("scan", &["--prefix", "a", "--from", "b"]).fails(2, &["--prefix"]);
    place.run("frobnicate", &[]).fails(2, &["frobnicate"]);
}

#[test]
fn a_budget_that_is_too_small() {
    let place = Place::with_lines("a\t1\n");
    place.run("get", &["a", "--memory", "1MiB"]).fails(1, &["memory budget", "1048576", "must be at least 16777216"]);
}

#[test]
fn unknown_keyspaces_and_bad_names() {
    let place = Place::with_lines("a\t1\n");
    for (command, arguments) in [("get", &["a"][..]), ("delete", &["a"]), ("scan", &[]), ("dump", &[])] {
        let arguments = [arguments, &["--keyspace", "nowhere"]].concat();
        place.run(command, &arguments).fails(1, &["no keyspace named \"nowhere\"", "ecotone list"]);
    }
    place.run("drop", &["nowhere"]).fails(1, &["no keyspace named \"nowhere\""]);
    place.run("put", &["a", "1", "--keyspace", ""]).fails(1, &["name"]);
    place.run("put", &["a", "1", "--keyspace", &"n".repeat(256)]).fails(1, &["256", "255"]);
    assert_eq!(place.run("list", &[]).good().text(), "default\tadaptive\tlogged\n");
}

#[test]
fn reading_makes_no_database() {
    let place = Place::new();
    let commands = [
        ("get", &["a"][..]),
        ("delete", &["a"]),
        ("scan", &[]),
        ("list", &[]),
        ("drop", &["a"]),
        ("stats", &[]),
        ("verify", &[]),
        ("dump", &[]),
    ];
    for (command, arguments) in commands {
        place.run(command, arguments).fails(1, &["is not an Ecotone database", "nothing at this path"]);
    }
    assert!(!place.path().exists());
    fs::create_dir(place.path()).expect("a directory");
    place.run("get", &["a"]).fails(1, &["is not an Ecotone database", "empty"]);
    assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), 0);
}

#[test]
fn paths_that_hold_something_else_are_left_alone() {
    let place = Place::new();
    fs::write(place.path(), "text").expect("a file");
    place.run("get", &["a"]).fails(1, &["is not an Ecotone database", "file"]);
    place.run("put", &["a", "1"]).fails(1, &["is not an Ecotone database", "file"]);
    assert_eq!(fs::read(place.path()).expect("a file"), b"text");

    let place = Place::new();
    fs::create_dir(place.path()).expect("a directory");
    fs::write(place.path().join("letter.txt"), "dear").expect("a file");
    place.run("get", &["a"]).fails(1, &["is not an Ecotone database", "other files"]);
    place.run("load", &[]).fails(1, &["is not an Ecotone database", "other files"]);
    assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), 1);
}

#[test]
fn a_second_opener_is_turned_away() {
    let place = Place::with_lines("a\t1\n");
    let database = ecotone::Database::builder(place.path()).open().expect("it opens");
    place.run("get", &["a"]).fails(1, &["open elsewhere"]);
    place.run("put", &["a", "2"]).fails(1, &["open elsewhere"]);
    database.close().expect("it closes");
    assert_eq!(place.run("get", &["a"]).good().text(), "1\n");
}

#[test]
fn a_parent_that_is_missing_is_to_be_made_first() {
    let place = Place::new();
    place
        .run_on(&place.around().join("missing/db"), "put", &["a", "1"])
        .fails(1, &["missing/db", "make the directory around it first"]);
}

#[test]
fn open_files_that_run_out_name_the_limit_of_the_shell() {
    let place = Place::with_lines("a\t1\n");
    let script = r#"ulimit -n 8; exec "$0" get "$1" a"#;
    let output = Command::new("sh").args(["-c", script, BINARY]).arg(place.path()).output().expect("sh runs");
    Run::of(output).fails(1, &["may have 8 files open", "ulimit -n"]);
}

#[test]
fn keys_that_are_no_text_and_numbers_that_are_no_text_say_which_option_they_need() {
    let place = Place::with_lines("a\t1\n");
    let output = Command::new(BINARY).arg("get").arg(place.path()).arg(OsStr::from_bytes(b"\xff")).output();
    Run::of(output.expect("the binary runs")).fails(2, &["not UTF-8", "--hex"]);
    place.run("get", &["123"]).fails(1, &["no such key", "--u64"]);
}

#[test]
fn a_log_level_that_is_none_is_refused() {
    let place = Place::with_lines("a\t1\n");
    let get = |level: &str| {
        let output = Command::new(BINARY).arg("get").arg(place.path()).arg("a").env("ECOTONE_LOG", level).output();
        Run::of(output.expect("the binary runs"))
    };
    get("loud").fails(2, &["ECOTONE_LOG", "loud", "debug"]);
    ["", "warn", "off", "warn,ecotone_lsm=debug"].iter().for_each(|level| assert_eq!(get(level).good().text(), "1\n"));
    assert!(get("info").stderr.contains("recovered"));
}

/// Damage is told with what to do about it, and no command sends its user to itself.
#[test]
fn no_advice_goes_round_in_circles() {
    let place = Place::with_lines("a\t1\n");
    for entry in fs::read_dir(place.path()).expect("a directory").flatten() {
        let mut bytes = fs::read(entry.path()).expect("a file");
        bytes.iter_mut().take(4096).for_each(|byte| *byte ^= 4);
        fs::write(entry.path(), bytes).expect("a file");
    }
    for (command, arguments) in [("verify", &[][..]), ("get", &["a"]), ("stats", &[])] {
        let run = place.run(command, arguments);
        assert!(run.stderr.contains("ecotone repair") && !run.stderr.contains("ecotone verify"), "{}", run.stderr);
        run.fails(1, &["corrupt", "restore a backup"]);
    }
    let other = Place::new();
    fs::create_dir(other.path()).expect("a directory");
    fs::write(other.path().join("letter.txt"), "dear").expect("a file");
    other.run("load", &[]).fails(1, &["other files", "where nothing is yet"]);
}
