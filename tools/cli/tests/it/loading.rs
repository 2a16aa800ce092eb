//! `load`, in all formats, and what it does with bad lines.

use std::path::Path;

use serde_json::json;

use crate::harness::Place;

fn integers(keys: &[u64]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}

/// The keys of the keyspace, as the command prints them.
fn keys(place: &Place, encoding: &[&str]) -> Vec<String> {
    let dump = place.run("dump", encoding).good();
    dump.text().lines().filter_map(|line| Some(line.split_once('\t')?.0.to_owned())).collect()
}

#[test]
fn integers_in_any_order_and_compressed() {
    for (name, content) in [("k.u64", integers(&[300, 5, 70_000])), ("k.u64.zst", zstd(&integers(&[300, 5, 70_000])))] {
        let place = Place::new();
        let file = place.file(name, &content);
        assert_eq!(
            place.run("load", &[&file, "--values", "16"]).good().text(),
            "loaded 3 records into default\n",
            "{name}"
        );
        assert_eq!(keys(&place, &["--u64"]), ["5", "300", "70000"], "{name}");
        assert_eq!(place.run("get", &["300", "--u64", "--hex"]).good().text(), "2c010000000000002c01000000000000\n");
    }
}

#[test]
fn differences_into_an_empty_and_a_filled_keyspace() {
    let place = Place::new();
    let file = place.file("k.du64.zst", &zstd(&integers(&[5, 295, 100])));
    let loaded = place.run("load", &[&file, "--json"]).good().json();
    assert_eq!(loaded, [json!({"keyspace": "default", "loaded": 3, "bad": 0})]);
    let lower = place.file("lower.du64", &integers(&[1, 1]));
    place.run("load", &[&lower]).good();
    assert_eq!(keys(&place, &["--u64"]), ["1", "2", "5", "300", "400"]);
}

#[test]
fn lines_from_standard_input_with_a_template() {
    let place = Place::new();
    place.feed("load", &[], b"b\r\na\n").good();
    assert_eq!(place.run("scan", &[]).good().text(), "a\t2\nb\t1\n");
    place.feed("load", &["-", "--value", "line {line} of it"], b"c").good();
    assert_eq!(place.run("get", &["c"]).good().text(), "line 1 of it\n");
}

#[test]
fn tsv_by_name_and_compressed_lines() {
    let place = Place::new();
    let tsv = place.file("records.tsv", b"key\tvalue\n7\tseven\n");
    place.run("load", &[&tsv]).good();
    assert_eq!(place.run("get", &["7"]).good().text(), "seven\n");
    let lines = place.file("words.txt.zst", &zstd(b"ant\nbee\n"));
    place.run("load", &[&lines, "--keyspace", "words"]).good();
    assert_eq!(place.run("get", &["bee", "--keyspace", "words"]).good().text(), "2\n");
}

#[test]
fn bad_lines_are_reported_and_the_load_goes_on() {
    let place = Place::new();
    let long = "k".repeat(1025);
    let input = format!("good\t1\nno tab\n{long}\tv\n\tempty key\nk\t{}\nk\t\\q\nlast\t2\n", "v".repeat(1900));
    let run = place.feed("load", &["-", "--format", "tsv", "--json"], input.as_bytes());
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(run.json(), [json!({"keyspace": "default", "loaded": 2, "bad": 5})]);
    let wanted = [
        "line 2: there is no tab between key and value: \"no tab\"",
        "line 3: the key has 1025 bytes, and the limit is 1024",
        "line 4: the key is empty",
        "line 5: ",
        "line 6: ",
    ];
    wanted.iter().for_each(|words| assert!(run.stderr.contains(words), "{words:?} is not in {}", run.stderr));
    assert!(
        run.stderr.contains("limit is 1900")
            && run.stderr.contains("5 bad lines of standard input were left out; 2 good ones were loaded"),
        "{}",
        run.stderr
    );
    assert_eq!(keys(&place, &[]), ["good", "last"]);
}

#[test]
fn a_bad_line_stops_the_load_if_asked() {
    let place = Place::new();
    let run = place.feed("load", &["-", "--format", "tsv", "--on-error", "stop"], b"a\t1\nbad\nc\t3\n");
    run.fails(1, &["line 2", "no tab", "stopped"]);
    assert_eq!(keys(&place, &[]), ["a"]);
}

#[test]
fn many_bad_lines_do_not_flood() {
    let place = Place::new();
    let run = place.feed("load", &["-", "--format", "tsv"], "bad\n".repeat(1000).as_bytes());
    assert_eq!((run.code, run.text()), (1, "loaded 0 records into default\n"));
    assert!(run.stderr.lines().count() < 15 && run.stderr.contains("1000 bad lines"), "{}", run.stderr);
}

#[test]
fn sorted_input_that_is_not_sorted() {
    let place = Place::new();
    let run = place.feed("load", &["-", "--sorted"], b"a\nc\nb\nc\nd\n");
    assert!(run.code == 1 && run.stderr.contains("line 3: ") && run.stderr.contains("2 bad lines"), "{}", run.stderr);
    assert_eq!(keys(&place, &[]), ["a", "c", "d"]);
    let run = place.feed("load", &["-", "--sorted", "--on-error", "stop"], b"e\nb\nf\n");
    run.fails(1, &["line 2", "--sorted"]);
    assert_eq!(keys(&place, &[]), ["a", "c", "d", "e"]);
}

#[test]
fn damaged_and_truncated_input() {
    let place = Place::new();
    let truncated = place.file("k.u64", &[integers(&[1, 2]), vec![9; 3]].concat());
    let run = place.run("load", &[&truncated]);
    assert!(
        run.code == 1 && run.stderr.contains("integer 3") && run.stderr.contains("3 of its 8 bytes"),
        "{}",
        run.stderr
    );
    let whole = zstd(&integers(&(0..10_000).collect::<Vec<_>>()));
    let half = place.file("half.u64.zst", &whole[..whole.len() / 2]);
    place.run("load", &[&half]).fails(1, &["cannot read", "half.u64.zst", "damaged or cut off"]);
    let plain = place.file("plain.u64.zst", b"not compressed");
    place
        .run("load", &[&plain])
        .fails(1, &["plain.u64.zst", "not compressed with Zstandard, or it is damaged", "--format"]);
    assert_eq!(place.run("verify", &[]).good().code, 0);
}

#[test]
fn damage_far_into_an_archive_keeps_what_came_before_and_names_the_file() {
    let place = Place::new();
    let lines: String = (0..100_000).map(|line| format!("{}\n", line * 7_919 % 100_003)).collect();
    let whole = zstd(lines.as_bytes());
    for (name, archive) in
        [("cut.txt.zst", whole[..whole.len() - 9].to_vec()), ("more.txt.zst", [&whole[..], b"garbage"].concat())]
    {
        let run = place.run("load", &[&place.file(name, &archive)]);
        let words = [name, "any further", "damaged", " records were loaded before the load failed, and stay"];
        run.fails(1, &words);
    }
}

#[test]
fn compressed_text_is_recognised_or_refused() {
    let place = Place::new();
    place.feed("load", &[], &zstd(b"ant\nbee\n")).good();
    assert_eq!(keys(&place, &[]), ["ant", "bee"]);
    let gzip = place.file("k.txt.gz", &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0]);
    place.run("load", &[&gzip]).fails(2, &["k.txt.gz", "compressed with gzip", "gzip -dc"]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_made() {
    let place = Place::new();
    place
        .feed("load", &[], b"a\t1\nb\t2\n")
        .fails(2, &["standard input", "a tab in its first line", "--format tsv", "--format lines"]);
    place.feed("load", &["--format", "u64"], b"a\t1\nb\t2\n").fails(2, &["holds text", "--format tsv"]);
    place.feed("load", &["--format", "du64"], b"#ecotone dump 1\na\t1\n").fails(2, &["holds text"]);
    place.feed("load", &[], b"{\"key\":\"a\",\"value\":\"1\"}\n").fails(2, &["JSON", "without --json"]);
    place.feed("load", &[], b"#ecotone dump 2\na\t1\n").fails(2, &["a dump of the form \"2\"", "newer"]);
    assert!(!place.path().exists());
    place.feed("load", &["--format", "lines"], b"a\t1\nb\t2\n").good();
    assert_eq!(keys(&place, &[]), ["a\\t1", "b\\t2"]);
}

#[test]
fn a_key_like_the_header_of_a_dump_is_a_key() {
    let place = Place::new();
    place.feed("load", &["--format", "tsv"], b"#ecotone dump 1\tvalue\n").good();
    assert_eq!(place.run("get", &["#ecotone dump 1"]).good().text(), "value\n");
    let dump = place.run("dump", &[]).good();
    assert_eq!(dump.text(), "#ecotone dump 1\n#ecotone dump 1\tvalue\n");
    let again = Place::new();
    again.feed("load", &[], &dump.stdout).good();
    assert_eq!(again.run("dump", &[]).good().stdout, dump.stdout);
    let lines = Place::new();
    lines.feed("load", &["--format", "lines"], b"#ecotone dump 1\nkey\n").good();
    assert_eq!(keys(&lines, &[]), ["#ecotone dump 1", "key"]);
}

#[test]
fn a_dump_that_was_cut_off_is_told() {
    let place = Place::new();
    let run = place.feed("load", &[], b"#ecotone dump 1\na\t1\nb\tvalu");
    assert!(run.code == 1 && run.stderr.contains("line 3: the dump was cut off"), "{}", run.stderr);
    assert_eq!(keys(&place, &[]), ["a"]);
}

#[test]
fn an_input_that_is_missing_leaves_no_database_behind() {
    let place = Place::new();
    place.run("load", &["/no/such/file.u64"]).fails(1, &["cannot open the input /no/such/file.u64"]);
    let around = place.around().to_str().expect("text").to_owned();
    place.run("load", &[&around]).fails(1, &["is a directory"]);
    assert!(!place.path().exists());
}

#[test]
fn the_bundled_keys_load() {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/geonames_cities.u64.zst");
    let place = Place::new();
    let file = bundled.to_str().expect("text");
    assert_eq!(place.run("load", &[file, "--memory", "16MiB"]).good().text(), "loaded 199568 records into default\n");
    assert!(place.run("verify", &["--memory", "16MiB"]).good().text().starts_with("default: 199441 records on "));
}

#[test]
#[ignore = "long"]
fn the_shared_sets_load() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/taxi_pickups.u64.zst");
    if !shared.exists() {
        return eprintln!("skipped: {} is not there", shared.display());
    }
    let place = Place::new();
    let loaded = place.run("load", &[shared.to_str().expect("text"), "--values", "8"]).good();
    assert_eq!(loaded.text(), "loaded 1224319 records into default\n");
    assert!(place.run("verify", &[]).good().text().starts_with("default: 1219261 records on "));
}
