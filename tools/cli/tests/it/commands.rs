//! Every command when all is well.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{BINARY, Place, Run};

#[test]
fn put_get_delete() {
    let place = Place::new();
    assert_eq!(place.run("put", &["key", "a value"]).good().text(), "");
    assert_eq!(place.run("get", &["key"]).good().text(), "a value\n");
    assert_eq!(place.run("get", &["key", "--json"]).good().json(), [json!({"key": "key", "value": "a value"})]);
    assert_eq!(place.run("put", &["key", "other", "--json"]).good().json(), [json!({"key": "key", "value": "other"})]);
    assert_eq!(place.run("get", &["key"]).good().text(), "other\n");
    assert_eq!(place.run("delete", &["key", "--json"]).good().json(), [json!({"key": "key", "deleted": true})]);
    assert_eq!(place.run("delete", &["key", "--json"]).good().json(), [json!({"key": "key", "deleted": false})]);
    place.run("delete", &["key"]).good();
    place.run("get", &["key"]).fails(1, &["no such key", "key"]);
    place.run("get", &["key", "--json"]).fails(1, &["no such key"]);
}

#[test]
fn bytes_as_hex_and_keys_as_integers() {
    let place = Place::new();
    place.run("put", &["00ff", "fe", "--hex"]).good();
    assert_eq!(place.run("get", &["00FF", "--hex"]).good().text(), "fe\n");
    assert_eq!(place.run("scan", &["--json"]).good().json(), [json!({"key_hex": "00ff", "value_hex": "fe"})]);
    place.run("delete", &["00ff", "--hex"]).good();
    place.run("put", &["258", "text", "--u64"]).good();
    assert_eq!(place.run("get", &["258", "--u64", "--json"]).good().json(), [json!({"key": 258, "value": "text"})]);
    assert_eq!(place.run("get", &["0000000000000102", "--hex"]).good().text(), "74657874\n");
    assert_eq!(place.run("scan", &["--u64"]).good().text(), "258\ttext\n");
}

#[test]
fn scans() {
    let place = Place::with_lines("ant\t1\nbear\t2\nbee\t3\nbeetle\t4\ncat\t5\n");
    let scan = |arguments: &[&str]| {
        let run = place.run("scan", arguments).good();
        run.text().lines().filter_map(|line| Some(line.split_once('\t')?.0.to_owned())).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(scan(&[]), "ant bear bee beetle cat");
    assert_eq!(scan(&["--prefix", "bee"]), "bee beetle");
    assert_eq!(scan(&["--from", "bee", "--to", "cat"]), "bee beetle");
    assert_eq!(scan(&["--from", "bee", "--limit", "1"]), "bee");
    assert_eq!(scan(&["--reverse"]), "cat beetle bee bear ant");
    assert_eq!(scan(&["--reverse", "--to", "bee", "--limit", "1"]), "bear");
    assert_eq!(scan(&["--from", "cat", "--to", "ant"]), "");
    assert_eq!(scan(&["--prefix", "dog"]), "");
    let json = place.run("scan", &["--prefix", "c", "--json"]).good().json();
    assert_eq!(json, [json!({"key": "cat", "value": "5"})]);
}

#[test]
fn keyspaces_are_listed_and_dropped() {
    let place = Place::new();
    place.run("put", &["k", "in towns", "--keyspace", "towns"]).good();
    place.run("put", &["k", "in default"]).good();
    assert_eq!(place.run("get", &["k", "--keyspace", "towns"]).good().text(), "in towns\n");
    assert_eq!(place.run("list", &[]).good().text(), "default\tadaptive\tlogged\ntowns\tadaptive\tlogged\n");
    let listed = place.run("list", &["--json"]).good().json();
    assert_eq!(listed.iter().map(|space| &space["name"]).collect::<Vec<_>>(), ["default", "towns"]);
    assert_eq!(place.run("drop", &["towns", "--json"]).good().json(), [json!({"dropped": "towns"})]);
    assert_eq!(place.run("list", &[]).good().text(), "default\tadaptive\tlogged\n");
    place.run("get", &["k", "--keyspace", "towns"]).fails(1, &["towns"]);
    place.run("drop", &["default"]).good();
    assert_eq!(place.run("list", &[]).good().text(), "");
}

#[test]
fn stats_and_verify() {
    let place = Place::with_lines("a\t1\nb\t2\n");
    let stats = place.run("stats", &["--json", "--memory", "64MiB"]).good().json().remove(0);
    assert_eq!(stats["memory_budget"], 64 << 20);
    assert_eq!(stats["keyspaces"][0]["name"], "default");
    assert!(stats["io"]["read_bytes"].is_u64() && stats["log"]["tail"].is_u64(), "{stats}");
    assert_eq!(stats["keyspaces"][0]["counters"]["writer_delay_max_us"], 0);
    let text = place.run("stats", &["--all"]).good();
    assert!(text.text().contains("memory by component") && text.text().contains("keyspace default"), "{}", text.text());
    assert_eq!((&stats["postponed"], &stats["postponed_last"]), (&json!(0), &json!(null)));
    let report = place.run("verify", &["--json"]).good().json().remove(0);
    assert_eq!((&report["keyspace"], &report["records"]), (&json!("default"), &json!(2)));
    assert_eq!(report["problems"], json!([]));
    assert!(place.run("verify", &[]).good().text().starts_with("default: 2 records on "));
}

#[test]
fn stats_are_six_lines_in_the_words_of_the_readme() {
    let readme = include_str!("../../../../README.md");
    let place = Place::new();
    for engine in ["tree", "lsm", "hash"] {
        let lines: String = (0..1000).map(|line| format!("key {line:08}\n")).collect();
        place.feed("load", &["-", "--keyspace", engine, "--engine", engine], lines.as_bytes()).good();
    }
    let run = place.run("stats", &[]).good();
    let lines: Vec<(&str, &str)> = run.text().lines().filter_map(|line| line.trim().split_once(' ')).collect();
    assert_eq!(
        lines.iter().map(|(word, _)| *word).collect::<Vec<_>>(),
        ["keyspaces", "records", "disk", "memory", "log", "state"]
    );
    let told = |word: &str| lines.iter().find(|(is, _)| *is == word).map(|(_, how_much)| how_much.trim());
    assert_eq!(told("keyspaces"), Some("hash (hash), lsm (lsm), tree (tree)"));
    // A hash index counts one entry in 16, so of 1,000 it may tell some hundreds more or fewer.
    let records = told("records").and_then(|told| told.strip_prefix("about ")?.replace(',', "").parse::<u64>().ok());
    assert!(records.is_some_and(|records| (2_280..=3_720).contains(&records)), "{lines:?}");
    assert_eq!(told("state"), Some("good"));
    assert!(told("memory").is_some_and(|memory| memory.ends_with("held of a budget of 256.0 MiB")), "{lines:?}");
    for (word, _) in lines {
        assert!(readme.contains(&format!("| `{word}` |")), "the README does not explain {word}");
    }
}

#[test]
fn stats_tell_the_shape_of_a_keyspace() {
    let place = Place::new();
    let lines: String = (0..20_000).map(|line| format!("key {line:08}\tvalue {line:034}\n")).collect();
    place.feed("load", &["-", "--format", "tsv", "--engine", "tree"], lines.as_bytes()).good();
    let stats = place.run("stats", &["--json"]).good().json().remove(0);
    let (keyspace, files) = (&stats["keyspaces"][0], &stats["io_by_file"]);
    let survey = &keyspace["survey"];
    let records = keyspace["records_estimated"].as_f64().unwrap();
    assert!((records / 20_000.0 - 1.0).abs() < 0.1, "{keyspace}");
    let pages = survey["pages"].as_u64().unwrap();
    let counted: u64 = survey["segments"].as_array().unwrap().iter().map(|of| of["segments"].as_u64().unwrap()).sum();
    assert_eq!(Some(counted), keyspace["counters"]["segments"].as_u64());
    assert!(pages >= counted && survey["sampled_pages"].as_u64() <= Some(pages.min(256)), "{survey}");
    // Forty bytes of value, twelve of key, and what a page needs for them.
    let amplification = keyspace["space_amplification"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&amplification), "{keyspace}");
    assert!(stats["disk_bytes"].as_u64() >= Some(20_000 * 52), "{stats}");
    let read = |kind: &str| files[kind]["read_bytes"].as_u64().unwrap();
    assert!(read("pages") >= 4096 && read("manifest") > 0 && read("double-write area") > 0, "{files}");
    assert_eq!(keyspace["counters"]["pages_read_for_checks"], survey["sampled_pages"]);
    let text = place.run("stats", &["--all"]).good();
    let told = [
        "records",
        "space amplification",
        "fill of a page",
        "segments",
        "overflow pages",
        "pages read",
        "pages written",
        "cache hits",
        "reorganisations",
        "forecast of inserts",
        "off, 0 percent",
    ];
    for words in told {
        assert!(text.text().contains(words), "{words:?} is not in {}", text.text());
    }
    println!("{}", text.text());
}

fn dump_without_header(place: &Place) -> String {
    let dump = place.run("dump", &[]).good();
    dump.text().strip_prefix("#ecotone dump 1\n").expect("a dump begins with its header").to_owned()
}

#[test]
fn integers_are_dumped_and_loaded_back() {
    let first = Place::new();
    first.run("put", &["258", "\u{1}", "--u64"]).good();
    for encoding in [&["--u64"][..], &["--u64", "--hex"]] {
        let dump = first.run("dump", encoding).good();
        let second = Place::new();
        second.feed("load", &[], &dump.stdout).good();
        assert_eq!(second.run("dump", encoding).good().stdout, dump.stdout);
        assert!(dump.text().starts_with(&format!("#ecotone dump 1 {}\n258\t", encoding.join(" "))), "{}", dump.text());
    }
}

#[test]
fn a_dump_loads_back() {
    let first =
        Place::with_lines("tab\\there\tnew\\nline\nback\\\\slash\tplain\nb\\xff\\x00\tvalue with\ttab\ngrüße\t\n");
    for encoding in [&[][..], &["--hex"]] {
        let dump = first.run("dump", encoding).good();
        let second = Place::new();
        // Nothing has to be said: the dump says it. What is said must be right.
        second.feed("load", &[], &dump.stdout).good();
        second.feed("load", &[&["-", "--format", "tsv"][..], encoding].concat(), &dump.stdout).good();
        second.feed("load", &["--u64"], &dump.stdout).fails(2, &["not with --u64", "leave that out"]);
        assert_eq!(second.run("dump", encoding).good().stdout, dump.stdout);
        assert_eq!(second.run("get", &["62ff00", "--hex"]).good().text(), "76616c7565207769746809746162\n");
        assert_eq!(second.run("get", &["grüße"]).good().text(), "\n");
    }
    // One without a header, as older versions made them.
    let old = dump_without_header(&first);
    let second = Place::new();
    second.feed("load", &["--format", "tsv"], old.as_bytes()).good();
    assert_eq!(dump_without_header(&second), old);
    let json = first.run("dump", &["--json"]).good().json();
    assert!(json.contains(&json!({"key": "tab\there", "value": "new\nline"})), "{json:?}");
    assert!(json.contains(&json!({"key_hex": "62ff00", "value": "value with\ttab"})), "{json:?}");
}

#[test]
fn a_reader_that_goes_away_ends_a_dump_quietly() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|line| format!("key {line:08}\n")).collect();
    place.feed("load", &[], lines.as_bytes()).good();
    let dump =
        || Command::new(BINARY).arg("dump").arg(place.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = dump().expect("the binary runs");
    drop(child.stdout.take());
    Run::of(child.wait_with_output().expect("the binary ends")).good();
}
