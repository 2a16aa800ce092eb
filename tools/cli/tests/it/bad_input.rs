//! Wrong arguments and wrong places: each its own clear error, and no harm done.

use std::fs;

use crate::harness::Place;

#[test]
fn keys_and_values_out_of_bounds() {
    let place = Place::with_lines("a\t1\n");
    place.run("put", &["", "v"]).fails(1, &["key", "limit is 1"]);
    place.run("put", &[&"k".repeat(1025), "v"]).fails(1, &["key", "1025", "limit is 1024"]);
    place.run("put", &["k", &"v".repeat(1900)]).fails(1, &["1901", "limit is 1900"]);
    place.run("get", &[""]).fails(1, &["key", "limit is 1"]);
    place.run("get", &[&"k".repeat(1025)]).fails(1, &["1025", "limit is 1024"]);
    place.run("delete", &[&"k".repeat(1025)]).fails(1, &["1025", "limit is 1024"]);
    place.run("put", &[&"k".repeat(1024), &"v".repeat(876)]).good();
    assert_eq!(place.run("get", &["a"]).good().text(), "1\n");
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
    place.run("get", &["a", "--memory", "1MiB"]).fails(1, &["memory budget", "1048576", "16777216"]);
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
    assert_eq!(place.run("list", &[]).good().text(), "default\ttree\tlogged\n");
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
