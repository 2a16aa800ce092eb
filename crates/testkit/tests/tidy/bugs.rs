//! Every known bug can be switched on in the product, and a suite must notice it.

use super::{
    report,
    repository::{Source, has_word, rust},
};

const HOME: &str = "crates/substrate/src/bug.rs";

/// The variants of `Bug`, with their lines.
fn bugs(home: &Source) -> Vec<(usize, &str)> {
    let inside = home
        .lines()
        .skip_while(|(_, line)| !line.starts_with("pub enum Bug"))
        .skip(1)
        .take_while(|(_, line)| *line != "}");
    inside
        .filter_map(|(number, line)| Some((number, line.trim().strip_suffix(',')?)))
        .filter(|(_, name)| *name != "None")
        .collect()
}

#[test]
fn every_bug_is_placed_and_must_be_noticed() {
    let sources = rust();
    let home = sources.iter().find(|source| source.path == HOME).expect("the bugs have a file");
    let mut findings = Vec::new();
    for (number, bug) in bugs(home) {
        let placed = |source: &&Source| {
            source.path.contains("/src/") && source.path != HOME && source.text.contains(&format!("bug!({bug})"))
        };
        if !sources.iter().any(|source| placed(&source)) {
            findings.push(home.finding(
                number,
                format!("{bug} is switched nowhere: place `bug!({bug})` where it belongs, or remove it"),
            ));
        }
        let noticed = |source: &&Source| source.is_test() && has_word(&source.text, &format!("Bug::{bug}"));
        if !sources.iter().any(|source| noticed(&source)) {
            findings.push(home.finding(
                number,
                format!("{bug} is in no suite: add it to the list of crates/ecotone/tests/it/bugs.rs"),
            ));
        }
    }
    report(findings);
}
