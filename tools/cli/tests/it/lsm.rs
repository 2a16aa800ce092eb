//! Keyspaces of the engine lsm.

use serde_json::json;

use crate::harness::Place;

#[test]
fn a_keyspace_of_tables_is_loaded_read_scanned_and_dumped() {
    let place = Place::new();
    let lines: String = (0..500).map(|number| format!("key-{number:03}\n")).collect();
    let input = place.file("keys.txt", lines.as_bytes());
    assert_eq!(place.run("load", &[&input, "--engine", "lsm"]).good().text(), "loaded 500 records into default\n");
    assert_eq!(place.run("get", &["key-007"]).good().text(), "8\n");
    place.run("put", &["key-007", "seven"]).good();
    place.run("put", &["key-500", "501", "--engine", "lsm"]).good();
    assert_eq!(place.run("delete", &["key-000", "--json"]).good().json(), [json!({"key": "key-000", "deleted": true})]);
    place.run("get", &["key-000"]).fails(1, &["no such key"]);
    assert_eq!(place.run("scan", &["--limit", "2"]).good().text(), "key-001\t2\nkey-002\t3\n");
    assert_eq!(place.run("scan", &["--from", "key-007", "--to", "key-008"]).good().text(), "key-007\tseven\n");
    assert_eq!(place.run("scan", &["--reverse", "--limit", "1"]).good().text(), "key-500\t501\n");
    assert_eq!(place.run("dump", &[]).good().text().lines().count(), 500);
    assert!(place.run("list", &[]).good().text().contains("lsm"));
    assert!(place.run("stats", &[]).good().text().contains("table records"));
    assert!(place.run("verify", &[]).good().text().contains("500 records"));
    place.run("put", &["key", "value", "--engine", "tree"]).fails(2, &["has the engine lsm"]);
}

#[test]
fn sorted_records_become_tables_at_once() {
    let place = Place::new();
    let lines: String = (0..2000).map(|number| format!("key-{number:04}\n")).collect();
    let input = place.file("keys.txt", lines.as_bytes());
    place.run("load", &[&input, "--engine", "lsm", "--sorted"]).good();
    assert!(place.run("verify", &[]).good().text().contains("2000 records"));
}
