//! Keyspaces of the engine hash.

use serde_json::json;

use crate::harness::Place;

#[test]
fn a_hashed_keyspace_is_loaded_read_and_dumped() {
    let place = Place::new();
    let lines: String = (0..500).map(|number| format!("key-{number}\n")).collect();
    let input = place.file("keys.txt", lines.as_bytes());
    assert_eq!(place.run("load", &[&input, "--engine", "hash"]).good().text(), "loaded 500 records into default\n");
    assert_eq!(place.run("get", &["key-7"]).good().text(), "8\n");
    place.run("put", &["key-7", "seven"]).good();
    place.run("put", &["key-500", "501", "--engine", "hash"]).good();
    assert_eq!(place.run("delete", &["key-0", "--json"]).good().json(), [json!({"key": "key-0", "deleted": true})]);
    place.run("get", &["key-0"]).fails(1, &["no such key"]);
    let dump = place.run("dump", &[]).good();
    let mut records: Vec<_> = dump.text().lines().skip(1).collect();
    records.sort_unstable();
    assert_eq!((records.len(), records[0], records[records.len() - 1]), (500, "key-1\t2", "key-99\t100"));
    assert!(records.contains(&"key-7\tseven") && records.contains(&"key-500\t501"));
    assert!(place.run("list", &[]).good().text().contains("hash"));
    assert!(place.run("stats", &["--all"]).good().text().contains("hot log bytes"));
    assert!(place.run("verify", &[]).good().text().contains("500 records"));
}

#[test]
fn what_needs_an_order_of_keys_is_refused() {
    let place = Place::new();
    place.run("put", &["key", "value", "--engine", "hash"]).good();
    place.run("scan", &[]).fails(2, &["keeps no order", "scan", "ecotone dump"]);
    let input = place.file("keys.txt", b"another\n");
    place.run("load", &[&input, "--sorted"]).fails(2, &["keeps no order", "--sorted", "leave it out"]);
    place.run("put", &["key", "value", "--engine", "tree"]).fails(2, &["has the engine hash"]);
    assert_eq!(place.run("get", &["key"]).good().text(), "value\n");
}

#[test]
fn options_are_those_of_the_engine_of_a_keyspace_that_is_made() {
    let place = Place::new();
    place.run("put", &["key", "value", "--engine", "hash", "--set", "disk=33554432", "--set", "read_cache=off"]).good();
    assert_eq!(place.run("get", &["key"]).good().text(), "value\n");
    place.run("put", &["key", "value", "--set", "read_cache=on"]).fails(2, &["is there", "leave --set out"]);
    let other = |setting: &'static str| ["key", "value", "--keyspace", "other", "--engine", "lsm", "--set", setting];
    place.run("put", &other("disk")).fails(2, &["no option and value"]);
    place.run("put", &other("disk=1")).fails(1, &["disk"]);
    place.run("put", &other("index=plr")).good();
    assert!(place.run("list", &[]).good().text().contains("other"));
}
