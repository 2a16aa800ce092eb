//! The files that documents and comments name exist, and the indexes are complete.

use super::{
    report,
    repository::{Finding, Source, files, root, rust},
};

/// Prefixes of texts that are taken for paths of the repository.
const TOP: [&str; 8] = ["crates/", "tools/", "docs/", "fixtures/", "fuzz/", "data/", ".ci/", "bindings/"];

/// The paths that a line names in backticks.
fn quoted(line: &str) -> Vec<String> {
    let words = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    words.filter(|path| TOP.iter().any(|top| path.starts_with(top))).map(trimmed).collect()
}

/// The paths that a line of a document links to.
fn linked(line: &str) -> Vec<String> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.contains("://") && !link.starts_with('#')).map(trimmed).collect()
}

/// The text without punctuation, line number or anchor.
fn trimmed(path: &str) -> String {
    path.trim_end_matches([',', '.', ';', ':']).split(['#', ':']).next().unwrap_or_default().to_owned()
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    match (path.split_once('{'), path.split_once('}')) {
        (Some((before, _)), Some((inside, behind))) => {
            let inside = &inside[before.len() + 1..];
            inside.split(',').map(|choice| format!("{before}{}{behind}", choice.trim())).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// Whether the path exists, relative to the root or to the document's folder. A star in the last part stands for any
/// text.
fn exists(path: &str, paper: &str) -> bool {
    let folder = paper.rsplit_once('/').map_or("", |(folder, _)| folder);
    let plain = path.split(['*', '<']).next().unwrap_or_default();
    let whole = plain == path;
    let candidates = [root().join(plain), root().join(folder).join(plain)];
    candidates.iter().any(|candidate| {
        let folder = candidate.parent().filter(|_| !whole && !plain.ends_with('/')).unwrap_or(candidate);
        folder.exists()
    })
}

fn missing(source: &Source, named: impl Iterator<Item = (usize, String)>) -> Vec<Finding> {
    let each = named.flat_map(|(number, path)| alternatives(&path).into_iter().map(move |path| (number, path)));
    let lost = each.filter(|(_, path)| !path.is_empty() && !exists(path, &source.path));
    lost.map(|(number, path)| source.finding(number, format!("{path} does not exist: name what does"))).collect()
}

#[test]
fn papers_name_what_exists() {
    let named = |(number, line): (usize, &str)| {
        quoted(line).into_iter().chain(linked(line)).map(move |path| (number, path)).collect::<Vec<_>>()
    };
    let papers = files(&[".md"]);
    // History names what was there then.
    let papers = papers.iter().filter(|paper| !paper.path.starts_with("docs/history/"));
    report(papers.flat_map(|paper| missing(paper, paper.lines().flat_map(named))).collect());
}

#[test]
fn comments_name_what_exists() {
    let named = |(number, line): (usize, &str)| {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        quoted(comment).into_iter().map(move |path| (number, path)).collect::<Vec<_>>()
    };
    let others = |source: &&Source| source.path != "crates/testkit/tests/tidy/papers.rs";
    report(rust().iter().filter(others).flat_map(|source| missing(source, source.lines().flat_map(named))).collect());
}

#[test]
fn indexes_are_complete() {
    let papers = files(&[".md"]);
    let mut findings = Vec::new();
    for folder in ["docs/decisions/", "docs/format/"] {
        let index = papers.iter().find(|paper| paper.path == format!("{folder}README.md"));
        let index = index.unwrap_or_else(|| panic!("{folder}README.md is the index of the folder and is missing"));
        for page in papers.iter().filter(|page| page.path.starts_with(folder) && page.path != index.path) {
            let name = page.path.trim_start_matches(folder);
            if !index.text.contains(name) {
                findings.push(index.finding(1, format!("{name} is not listed: add a line for it")));
            }
        }
    }
    report(findings);
}
