//! Keyspaces of the engine lsm, and of adaptive, which begin as such.

use std::{thread, time::Duration};

use ecotone::{Database, Engine, Hint, KeyspaceOptions, Shape};
use serde_json::json;

use crate::harness::Place;

#[test]
fn a_keyspace_of_tables_is_loaded_read_scanned_and_dumped() {
    is_loaded_read_scanned_and_dumped("lsm");
}

#[test]
fn an_adaptive_keyspace_is_loaded_read_scanned_and_dumped() {
    is_loaded_read_scanned_and_dumped("adaptive");
}

fn is_loaded_read_scanned_and_dumped(engine: &str) {
    let place = Place::new();
    let lines: String = (0..500).map(|number| format!("key-{number:03}\n")).collect();
    let input = place.file("keys.txt", lines.as_bytes());
    assert_eq!(place.run("load", &[&input, "--engine", engine]).good().text(), "loaded 500 records into default\n");
    assert_eq!(place.run("get", &["key-007"]).good().text(), "8\n");
    place.run("put", &["key-007", "seven"]).good();
    place.run("put", &["key-500", "501", "--engine", engine]).good();
    assert_eq!(place.run("delete", &["key-000", "--json"]).good().json(), [json!({"key": "key-000", "deleted": true})]);
    place.run("get", &["key-000"]).fails(1, &["no such key"]);
    assert_eq!(place.run("scan", &["--limit", "2"]).good().text(), "key-001\t2\nkey-002\t3\n");
    assert_eq!(place.run("scan", &["--from", "key-007", "--to", "key-008"]).good().text(), "key-007\tseven\n");
    assert_eq!(place.run("scan", &["--reverse", "--limit", "1"]).good().text(), "key-500\t501\n");
    assert_eq!(place.run("scan", &[]).good().text().lines().count(), 500);
    assert!(place.run("list", &[]).good().text().contains(engine));
    assert!(place.run("stats", &["--all"]).good().text().contains("table records"));
    assert_eq!(place.run("stats", &["--json"]).good().json()[0]["keyspaces"][0]["ranges"], json!([]));
    assert!(place.run("verify", &[]).good().text().contains("500 records"));
    place.run("put", &["key", "value", "--engine", "tree"]).fails(2, &[&format!("has the engine {engine}")]);
}

#[test]
fn ranges_that_became_pages_are_told() {
    let place = Place::new();
    let lines: String = (0..2000).map(|number| format!("key-{number:04}\n")).collect();
    let input = place.file("keys.txt", lines.as_bytes());
    place.run("load", &[&input, "--engine", "adaptive"]).good();
    let database = Database::builder(place.path()).open().unwrap();
    let keyspace = database.keyspace("default", KeyspaceOptions::default().engine(Engine::Adaptive)).unwrap();
    keyspace.hint("key-0500".."key-1000", Hint::ReadMostly).unwrap();
    while !keyspace.shapes().iter().any(|range| range.shape == Shape::Pages) {
        thread::sleep(Duration::from_millis(10));
    }
    drop(keyspace);
    database.close().unwrap();
    let told = place.run("stats", &["--json"]).good().json();
    let ranges = told[0]["keyspaces"][0]["ranges"].as_array().unwrap().clone();
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    let of = |name: &str| ranges[0][name].clone();
    assert_eq!([of("lower"), of("upper"), of("shape")], [json!("key-0500"), json!("key-1000"), json!("pages")]);
    assert!(
        of("page_bytes").as_u64() > Some(0) && of("table_bytes") == json!(0) && of("threshold_seconds") == json!(0.0)
    );
    assert!(place.run("stats", &["--all"]).good().text().contains("pages from key-0500 to key-1000"));
}

#[test]
fn what_was_deleted_and_replaced_goes_when_everything_is_compacted() {
    let place = Place::new();
    let lines = |value: &str| -> String {
        (0..2000).map(|number| format!("key-{number:04}\t{}\n", value.repeat(50))).collect()
    };
    for value in ["old", "new"] {
        // Each of these leaves a run, since the command ends with a flush.
        place.feed("load", &["-", "--format", "tsv", "--engine", "lsm"], lines(value).as_bytes()).good();
    }
    for number in 1..4 {
        place.run("delete", &[&format!("key-{number:04}")]).good();
    }
    place.run("put", &["key", "value", "--keyspace", "pages", "--engine", "tree"]).good();
    let text = place.run("compact", &["--keyspace", "pages"]).good();
    assert_eq!(text.text(), "pages: nothing to merge in a keyspace with the engine tree\n");
    let told = place.run("compact", &["--json"]).good().json();
    let (before, after) = (told[0]["bytes_before"].as_u64().unwrap(), told[0]["bytes"].as_u64().unwrap());
    assert!((told[0]["keyspace"] == "default") && after > 2000 * 150 && after < before * 6 / 10, "{told:?}");
    assert_eq!(told[1], json!({"keyspace": "pages", "engine": "tree", "bytes_before": null, "bytes": null}));
    assert!(place.run("verify", &[]).good().text().contains("default: 1997 records"));
    assert_eq!(place.run("get", &["key-0004"]).good().text(), format!("{}\n", "new".repeat(50)));
    assert_eq!(
        place.run("compact", &[]).good().text().lines().next(),
        Some(&*format!("default: {after} bytes of tables, {after} before"))
    );
    place.run("compact", &["--keyspace", "towns"]).fails(1, &["towns"]);
}

#[test]
fn sorted_records_become_tables_at_once() {
    let place = Place::new();
    let lines: String = (0..2000).map(|number| format!("key-{number:04}\n")).collect();
    let input = place.file("keys.txt", lines.as_bytes());
    place.run("load", &[&input, "--engine", "lsm", "--sorted"]).good();
    assert!(place.run("verify", &[]).good().text().contains("2000 records"));
}
