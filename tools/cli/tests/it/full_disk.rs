//! `load` on a disk that becomes full: a file system of a few megabytes, mounted in a namespace of its own, or, where
//! that is not allowed, a limit on the size of files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{BINARY, Place, Run};

/// Records of the input: more than fits.
const RECORDS: usize = 60_000;
const VALUE: usize = 1_000;

/// Begins with a mount that ends with the namespace. What it gives to others lies outside. The ballast leaves as much
/// room as the load had; what is freed in the end is enough for all that the log holds, and for what is put in order
/// meanwhile.
const MOUNTED: &str = r#"
mount -t tmpfs -o size=56m ecotone "$DIRECTORY" || exit 77
head -c 25165824 /dev/zero > "$DIRECTORY/ballast"
run() {
    name=$1; shift; "$BINARY" "$@" > "$RESULTS/$name.out" 2> "$RESULTS/$name.err"; echo $? > "$RESULTS/$name.code"
}
run load load "$DIRECTORY/db" "$INPUT" --memory 16MiB --value "$VALUE" $SORTED
run full get "$DIRECTORY/db" 0000000 --memory 16MiB
rm "$DIRECTORY/ballast"
run dump dump "$DIRECTORY/db" --memory 16MiB
run verify verify "$DIRECTORY/db" --memory 16MiB
run again load "$DIRECTORY/db" "$MORE" --memory 16MiB --value "$VALUE"
run last get "$DIRECTORY/db" more --memory 16MiB
"#;

/// The same with a limit on the size of files, which is lifted in place of removing the ballast.
const LIMITED: &str = r#"
run() {
    name=$1; shift; "$BINARY" "$@" > "$RESULTS/$name.out" 2> "$RESULTS/$name.err"; echo $? > "$RESULTS/$name.code"
}
(
    trap '' XFSZ
    ulimit -f 32768 || exit 77
    run load load "$DIRECTORY/db" "$INPUT" --memory 16MiB --value "$VALUE" $SORTED
    run full get "$DIRECTORY/db" 0000000 --memory 16MiB
) || exit 77
run dump dump "$DIRECTORY/db" --memory 16MiB
run verify verify "$DIRECTORY/db" --memory 16MiB
run again load "$DIRECTORY/db" "$MORE" --memory 16MiB --value "$VALUE"
run last get "$DIRECTORY/db" more --memory 16MiB
"#;

/// What the commands of a script said.
struct Results {
    directory: PathBuf,
}

impl Results {
    fn of(&self, name: &str) -> Run {
        let read = |ending: &str| {
            fs::read(self.directory.join(format!("{name}.{ending}"))).expect("the script has run the command")
        };
        let stderr = String::from_utf8_lossy(&read("err")).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = String::from_utf8_lossy(&read("code")).trim().parse().expect("an exit code");
        Run { code, stdout: read("out"), stderr }
    }
}

/// Runs the script in the first way that works here.
fn run(place: &Place, sorted: bool) -> Option<Results> {
    let lines: String = (0..RECORDS).map(|number| format!("{:07}\n", scattered(number, sorted))).collect();
    let environment = |name: &str| {
        let directory = place.around().join(name);
        fs::create_dir_all(&directory).expect("a directory");
        directory
    };
    let (input, more) = (place.file("input", lines.as_bytes()), place.file("more", b"more\n"));
    let (results, value) = (environment("results"), "v".repeat(VALUE - 7) + "{line}");
    let attempt = |directory: &Path, mut command: Command, script: &str| {
        command.args(["sh", "-c", script]).env("BINARY", BINARY).env("DIRECTORY", directory).env("RESULTS", &results);
        command
            .env("INPUT", &input)
            .env("MORE", &more)
            .env("VALUE", &value)
            .env("SORTED", if sorted { "--sorted" } else { "" });
        command.output().is_ok_and(|output| output.status.success())
    };
    let unshare = |map: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--mount").args(map);
        command
    };
    let ran = attempt(&environment("mounted"), unshare(&[]), MOUNTED)
        || attempt(&environment("mapped"), unshare(&["--map-root-user"]), MOUNTED)
        || attempt(&environment("limited"), Command::new("env"), LIMITED);
    if !ran {
        eprintln!("skipped: neither a small file system nor a limit on the size of files is to be had here");
    }
    ran.then_some(Results { directory: results })
}

/// The keys of the input, in another order unless they are to be sorted.
fn scattered(number: usize, sorted: bool) -> usize {
    if sorted { number } else { number * 7_919 % RECORDS }
}

/// The number before these words.
fn number_before(text: &str, words: &str) -> usize {
    let before = text.split(words).next().filter(|before| before.len() < text.len());
    let number = before.and_then(|before| before.rsplit([' ', '\n']).next()).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no number before {words:?} in {text:?}"))
}

fn load_into_a_full_disk(sorted: bool) {
    let place = Place::new();
    let Some(results) = run(&place, sorted) else { return };
    let load = results.of("load");
    let loaded = number_before(&load.stderr, " records were loaded");
    assert!(loaded > 1_000 && loaded < RECORDS, "{loaded} records fit");
    load.fails(1, &["no space left on the disk", "free some space", "load the input again"]);
    let full = results.of("full");
    assert_eq!(
        (full.code, full.text()),
        (0, &*format!("{}1\n", "v".repeat(VALUE - 7))),
        "reads go on: {}",
        full.stderr
    );
    let dump = results.of("dump").good();
    let mut found: Vec<&str> = dump.text().lines().skip(1).collect();
    let line = |number: usize| format!("{:07}\t{}{}", scattered(number, sorted), "v".repeat(VALUE - 7), number + 1);
    let mut expected: Vec<String> = (0..found.len()).map(line).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert!(found.len() >= loaded && found == expected, "{loaded} records were told, {} are there", found.len());
    results.of("verify").good();
    results.of("again").good();
    assert_eq!(results.of("last").good().text().len(), VALUE - 7 + 2);
}

#[test]
fn a_load_that_fills_the_disk_keeps_what_it_has_told() {
    load_into_a_full_disk(false);
}

#[test]
fn a_sorted_load_that_fills_the_disk_keeps_what_it_has_told() {
    load_into_a_full_disk(true);
}
