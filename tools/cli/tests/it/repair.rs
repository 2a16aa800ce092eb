//! `ecotone repair`, as a user runs it after damage.

use std::{fs, path::PathBuf};

use crate::harness::{Place, Run};

fn sample() -> Place {
    let lines: String = (0..400).map(|line| format!("key {line:04}\tvalue {line}\n")).collect();
    Place::with_lines(&lines)
}

fn repair(place: &Place, arguments: &[&str]) -> Run {
    let to = place.around().join("new");
    place.run("repair", &[&["--to", to.to_str().expect("text"), "--memory", "16MiB"], arguments].concat())
}

/// Everything in the new database.
fn dump(place: &Place, keyspace: &str) -> Vec<u8> {
    let to = place.around().join("new");
    place.run_on(&to, "dump", &["--keyspace", keyspace]).good().stdout
}

fn file(place: &Place, name: &str) -> PathBuf {
    let entries = fs::read_dir(place.path()).expect("a directory").flatten().map(|entry| entry.path());
    let mut found: Vec<_> =
        entries.filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))).collect();
    found.sort();
    found.remove(0)
}

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 4;
    fs::write(path, bytes).expect("a file");
}

#[test]
fn a_database_without_a_manifest_is_saved_whole() {
    let place = sample();
    let right = place.run("dump", &[]).good().stdout;
    ["manifest.1", "manifest.2"].iter().for_each(|name| flip(&file(&place, name), 70));
    place.run("dump", &[]).fails(1, &["manifest.", "ecotone repair"]);
    let run = repair(&place, &["--json"]);
    // The log says that a manifest is passed over.
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = &run.json()[0];
    assert!(report["complete"] == true && report["keyspaces"][0]["name"] == "keyspace-1", "{report}");
    assert!(dump(&place, "keyspace-1") == right);
}

#[test]
fn what_is_lost_is_told_and_is_exit_code_3() {
    let place = sample();
    let right = place.run("dump", &[]).good().stdout;
    let pages = file(&place, "pages.");
    let length = fs::metadata(&pages).expect("a file").len() as usize;
    (1..length / 4096).for_each(|page| flip(&pages, page * 4096 + 4000));
    let run = repair(&place, &[]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.text().contains("missing from the beginning to before the end"), "{}", run.text());
    assert!(run.stderr.contains("does not hold all"), "{}", run.stderr);
    let verify = place.run("verify", &[]);
    assert!(verify.code == 1 && verify.stderr.contains("ecotone repair"), "{}", verify.stderr);
    let left = dump(&place, "default");
    assert!(left.len() < right.len());
}

#[test]
fn the_new_place_must_be_empty_and_the_old_one_a_database() {
    let place = sample();
    repair(&place, &[]).good();
    repair(&place, &[]).fails(1, &["not an empty directory", "new"]);
    let nothing = Place::new();
    repair(&nothing, &[]).fails(1, &["no such directory"]);
    assert!(!nothing.around().join("new").exists());
}
