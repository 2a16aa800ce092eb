//! Every file is reached by a `mod` line, and none is too long.

use std::collections::BTreeSet;

use super::{
    report,
    repository::{Source, rust},
};

const LONGEST: usize = 600;

/// Whether this file is a crate root for cargo.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] | [.., "src", "bin", _] => true,
        [.., "tests" | "examples" | "benches", _] | [.., "tests" | "examples", _, "main.rs"] => !parts.contains(&"src"),
        [first, "fuzz_targets", _] => *first == "fuzz",
        _ => false,
    }
}

/// The folder of a file's modules.
fn children(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ if is_root(path) => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

/// Names of the modules that have files of their own, with the path if one is given.
fn modules(source: &Source) -> Vec<String> {
    let mut given = None;
    let mut found = Vec::new();
    for (_, line) in source.lines() {
        let line = line.trim();
        if let Some(path) = line.strip_prefix("#[path = \"") {
            given = path.split('"').next().map(str::to_owned);
        } else if let Some((_, name)) =
            line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")).filter(|(_, name)| !name.contains(' '))
        {
            found.push(given.take().unwrap_or_else(|| name.to_owned()));
        }
    }
    found
}

#[test]
fn every_file_is_reached() {
    let sources = rust();
    let mut reached: BTreeSet<String> =
        sources.iter().map(|source| source.path.clone()).filter(|path| is_root(path)).collect();
    let mut open: Vec<String> = reached.iter().cloned().collect();
    while let Some(path) = open.pop() {
        let source = sources.iter().find(|source| source.path == path).expect("it was found");
        for module in modules(source) {
            let folder = children(&path);
            let candidates =
                [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs"), format!("{folder}/{module}")];
            let found =
                candidates.into_iter().filter(|candidate| sources.iter().any(|source| source.path == *candidate));
            open.extend(found.filter(|candidate| reached.insert(candidate.clone())));
        }
    }
    let dead = sources.iter().filter(|source| !reached.contains(&source.path));
    report(dead.map(|source| source.finding(1, "no `mod` line leads here: add one, or remove the file")).collect());
}

#[test]
fn no_file_is_too_long() {
    let long = |source: &Source| {
        (source.lines().count() > LONGEST)
            .then(|| source.finding(LONGEST, format!("more than {LONGEST} lines: split the file by its nouns")))
    };
    report(rust().iter().filter_map(long).collect());
}
