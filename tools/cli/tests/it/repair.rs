//! `ecotone repair`, as a user runs it after damage.

use std::{fs, path::PathBuf};

use crate::harness::{Place, Run};

fn sample() -> Place {
    let lines: String = (0..400).map(|line| format!("key {line:04}\tvalue {line}\n")).collect();
    let place = Place::new();
    place.feed("load", &["-", "--format", "tsv", "--engine", "tree"], lines.as_bytes()).good();
    place
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

/// A database with the same records in a keyspace of another engine, some of them replaced and deleted.
fn sample_of(engine: &str) -> Place {
    let place = Place::new();
    let lines: String = (0..400).map(|line| format!("key {line:04}\tvalue {line}\n")).collect();
    place.feed("load", &["-", "--format", "tsv", "--engine", engine], lines.as_bytes()).good();
    place.run("put", &["key 0007", "seven"]).good();
    place.run("delete", &["key 0011"]).good();
    place
}

/// The lines of a dump, sorted: a hashed keyspace has no order.
fn sorted(dump: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = dump.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

const ENGINES: [&str; 3] = ["lsm", "adaptive", "hash"];

#[test]
fn keyspaces_of_every_engine_are_saved_with_their_engine() {
    for engine in ENGINES {
        let place = sample_of(engine);
        let right = place.run("dump", &[]).good().stdout;
        let run = repair(&place, &["--json"]).good();
        assert!(run.json()[0]["complete"] == true, "{}", run.text());
        assert!(sorted(&dump(&place, "default")) == sorted(&right), "{engine}");
        assert!(place.run_on(&place.around().join("new"), "list", &[]).good().text().contains(engine));
    }
}

#[test]
fn keyspaces_of_every_engine_are_saved_without_a_manifest() {
    for engine in ENGINES {
        let place = sample_of(engine);
        let right = place.run("dump", &[]).good().stdout;
        ["manifest.1", "manifest.2"].iter().for_each(|name| flip(&file(&place, name), 70));
        let run = repair(&place, &["--json"]);
        assert_eq!(run.code, 0, "{engine}: {} {}", run.text(), run.stderr);
        assert!(sorted(&dump(&place, "keyspace-1")) == sorted(&right), "{engine}");
    }
}

#[test]
fn a_damaged_block_of_every_engine_is_told_by_file_and_byte() {
    for (engine, name) in [("lsm", "table.1."), ("adaptive", "table.1."), ("hash", "segment.1.")] {
        let place = sample_of(engine);
        let right = place.run("dump", &[]).good().stdout;
        let damaged = file(&place, name);
        flip(&damaged, 4096 + 600);
        let run = repair(&place, &[]);
        assert_eq!(run.code, 3, "{engine}: {} {}", run.text(), run.stderr);
        let damaged = damaged.file_name().expect("a name").to_string_lossy().into_owned();
        for word in ["doubtful from ", &damaged, "byte 4096", "1 of them damaged"] {
            assert!(run.text().contains(word), "{engine}: {word:?} is not in {}", run.text());
        }
        let (left, right) = (dump(&place, "default"), sorted(&right));
        let left = sorted(&left);
        assert!(left.len() < right.len() && left.iter().all(|line| right.contains(line)), "{engine}");
    }
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
