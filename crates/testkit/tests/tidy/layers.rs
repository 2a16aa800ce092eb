//! Imports run one way: sys, substrate, engine, the engines, ecotone, tools. Of the engines only adaptive imports
//! others. The test kit may import engines, and only tests use it.

use super::{
    report,
    repository::{Finding, Source, files, has_word, rust},
};

/// The packages with their layers.
const LAYERS: [(&str, &str, usize); 11] = [
    ("crates/sys/", "ecotone-sys", 0),
    ("crates/substrate/", "ecotone-substrate", 1),
    ("crates/engine/", "ecotone-engine", 2),
    ("crates/tree/", "ecotone-tree", 3),
    ("crates/hash/", "ecotone-hash", 3),
    ("crates/lsm/", "ecotone-lsm", 3),
    ("crates/adaptive/", "ecotone-adaptive", 4),
    ("crates/testkit/", "ecotone-testkit", 5),
    ("crates/ecotone/", "ecotone", 5),
    ("tools/cli/", "ecotone-cli", 6),
    ("tools/bench/", "ecotone-bench", 6),
];

fn layer_of(path: &str) -> Option<usize> {
    LAYERS.iter().find(|(folder, ..)| path.starts_with(folder)).map(|(.., layer)| *layer)
}

/// Reads a line of a manifest as section and name of the dependency.
fn dependencies(manifest: &Source) -> Vec<(usize, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for (number, line) in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, _)) = line.split_once(['.', ' ', '=']).filter(|_| section.ends_with("dependencies")) {
            found.push((number, section.clone(), name.to_owned()));
        }
    }
    found
}

fn manifests() -> Vec<Source> {
    files(&["/Cargo.toml"]).into_iter().filter(|file| layer_of(&file.path).is_some()).collect()
}

#[test]
fn manifests_name_lower_layers_only() {
    let mut findings = Vec::new();
    for manifest in manifests() {
        let layer = layer_of(&manifest.path).expect("it is one of the packages");
        for (number, section, name) in
            dependencies(&manifest).into_iter().filter(|(_, section, _)| !section.contains("dev-"))
        {
            if name == "ecotone-testkit" {
                findings.push(manifest.finding(number, "the test kit is for tests: move it to [dev-dependencies]"));
            } else if LAYERS.iter().any(|(_, package, other)| *package == name && *other >= layer) {
                findings.push(
                    manifest
                        .finding(number, format!("{section}: {name} is no lower layer; move what you need of it down")),
                );
            }
        }
    }
    report(findings);
}

#[test]
fn every_dependency_is_used() {
    let sources = rust();
    let mut findings = Vec::new();
    for manifest in manifests() {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let own: Vec<&Source> = sources.iter().filter(|source| source.path.starts_with(folder)).collect();
        for (number, section, name) in dependencies(&manifest) {
            let word = name.replace('-', "_");
            let used = |source: &&Source| {
                (section.contains("dev-") || source.path.contains("/src/") || source.path.ends_with("build.rs"))
                    && source.text.contains(&word)
            };
            if !own.iter().any(used) {
                findings.push(manifest.finding(number, format!("{name} is not used: remove the line")));
            }
        }
    }
    report(findings);
}

#[test]
fn code_names_lower_layers_only() {
    let mut findings = Vec::new();
    for source in rust().iter().filter(|source| source.path.contains("/src/") && !source.is_test()) {
        let Some(layer) = layer_of(&source.path) else { continue };
        for (_, package, _) in LAYERS.iter().filter(|(_, package, other)| *other > layer && *package != "ecotone") {
            let word = package.replace('-', "_");
            let named = source.code().filter(|(_, line)| has_word(line, &word));
            findings.extend(named.map(|(number, _)| {
                source.finding(number, format!("{word} is a higher layer; move what you need of it down"))
            }));
        }
    }
    report(findings);
}

/// Other engines use the record cache and the segment store of the tree too, so these know neither log nor scheduler.
#[test]
fn the_parts_of_the_tree_know_neither_log_nor_scheduler() {
    let parts = ["cache/", "index/", "page_allocator", "store.rs", "claims.rs", "merge.rs"];
    let part = |source: &&Source| parts.iter().any(|part| source.path.starts_with(&format!("crates/tree/src/{part}")));
    let strangers = ["wal", "scheduler", "Shared", "Context"];
    let finding = |source: &Source| -> Vec<Finding> {
        let named = source.code().filter(|(_, line)| strangers.iter().any(|word| has_word(line, word)));
        named
            .map(|(number, _)| {
                source.finding(
                    number,
                    "a part of the tree names the log or the scheduler: that belongs to the joiner, src/lib.rs and \
                    beside",
                )
            })
            .collect()
    };
    report(rust().iter().filter(|source| !source.is_test()).filter(part).flat_map(finding).collect());
}
