//! Calls that the codebase does not make, each with the alternative.

use super::{
    report,
    repository::{Source, has_word, rust},
};

/// Where a rule holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Everywhere,
    /// The library and the crates that it depends on.
    Libraries,
}

/// A banned text, where it is banned, the files that are excepted, and what to do.
type Rule = (&'static str, Where, &'static [&'static str], &'static str);

const RULES: [Rule; 12] = [
    ("dbg!(", Where::Everywhere, &[], "remove it"),
    ("todo!(", Where::Everywhere, &[], "write it now: there are no stubs"),
    ("unimplemented!(", Where::Everywhere, &[], "write it now: there are no stubs"),
    (
        "#[ignore",
        Where::Everywhere,
        &[],
        "make the test fast, or say that it is `long` and no more: the gate runs these too",
    ),
    ("println!(", Where::Libraries, &[], "use tracing, or return what is to be shown"),
    ("print!(", Where::Libraries, &[], "use tracing, or return what is to be shown"),
    ("process::exit", Where::Libraries, &[], "return an error: only a program ends itself"),
    ("Instant::now", Where::Libraries, &["crates/substrate/src/clock.rs"], "ask the Clock that was injected"),
    ("SystemTime::now", Where::Libraries, &["crates/substrate/src/clock.rs"], "ask the Clock that was injected"),
    ("thread::spawn", Where::Libraries, &["crates/sys/src/primitive/orders.rs"], "give the work to the Scheduler"),
    ("thread::Builder", Where::Libraries, &["crates/substrate/src/scheduler.rs"], "give the work to the Scheduler"),
    (
        "std::fs",
        Where::Libraries,
        &[
            "crates/substrate/src/disk/mod.rs",
            "crates/substrate/src/codec/hex.rs",
            "crates/ecotone/src/config/database.rs",
        ],
        "go through Storage: it is the one seam through which bytes go to disk",
    ),
];

/// The one way to leave a test out of the quick tests.
const LONG: &str = "#[ignore = \"long\"]";

impl Where {
    fn holds(self, source: &Source) -> bool {
        match self {
            Where::Everywhere => source.path != "crates/testkit/tests/tidy/calls.rs",
            Where::Libraries => source.is_product() && source.path.starts_with("crates/"),
        }
    }
}

#[test]
fn banned_calls() {
    let mut findings = Vec::new();
    let sources = rust();
    for (call, place, except, instead) in RULES {
        for source in sources.iter().filter(|source| place.holds(source) && !except.contains(&source.path.as_str())) {
            let banned = source.code().filter(|(_, line)| line.contains(call) && line.trim() != LONG);
            findings.extend(
                banned.map(|(number, _)| source.finding(number, format!("`{call}` is banned here: {instead}"))),
            );
        }
    }
    report(findings);
}

#[test]
fn constants_of_models_come_from_primitive() {
    let mut findings = Vec::new();
    let is_elsewhere =
        |source: &&Source| Where::Libraries.holds(source) && source.path != "crates/sys/src/primitive/sizes.rs";
    for source in rust().iter().filter(is_elsewhere) {
        let found = source.code().filter(|(_, line)| line.contains("cfg!(") && line.contains("feature"));
        findings.extend(
            found.map(|(number, _)| {
                source.finding(number, "take the constants of models from `ecotone_sys::primitive`")
            }),
        );
    }
    report(findings);
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    let mut findings = Vec::new();
    for source in rust()
        .iter()
        .filter(|source| !source.path.starts_with("crates/sys/") && source.path != "crates/testkit/tests/tidy/calls.rs")
    {
        let found = source.code().filter(|(_, line)| has_word(line, "unsafe") && !line.contains('"'));
        findings.extend(found.map(|(number, _)| {
            source.finding(number, "unsafe code belongs to crates/sys: give it a safe interface there")
        }));
    }
    report(findings);
}
