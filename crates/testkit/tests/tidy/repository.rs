//! The files of the repository, read once for each test.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// Folders of other projects, or of builds.
const SKIPPED: [&str; 4] = ["target", ".git", "shared", "corpus"];

/// A file of the repository.
#[derive(Debug)]
pub(super) struct Source {
    /// The path relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// A broken rule, and what to do about it.
#[derive(Debug)]
pub(super) struct Finding {
    path: String,
    line: usize,
    advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.advice)
    }
}

impl Source {
    /// The lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The lines of code: comments are left out, and so is a test module at the end.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let product = self.lines().take_while(|(_, line)| !line.ends_with("mod tests {"));
        product
            .map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
            .filter(|(_, line)| !line.trim().is_empty())
    }

    pub(super) fn finding(&self, line: usize, advice: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, advice: advice.into() }
    }

    /// Whether it is compiled for tests only.
    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// Whether it is a part of the library or a program.
    pub(super) fn is_product(&self) -> bool {
        self.path.contains("/src/")
            && !self.is_test()
            && !self.path.starts_with("crates/testkit/")
            && !self.path.starts_with("fuzz/")
    }
}

/// The root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// Every file whose name ends with one of `endings`, by path.
pub(super) fn files(endings: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&root(), &mut paths);
    paths.sort();
    let wanted = paths.into_iter().filter(|path| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)));
    wanted.map(|path| source(&path)).collect()
}

/// All Rust files.
pub(super) fn rust() -> Vec<Source> {
    files(&[".rs"])
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name();
        let kind = entry.file_type().expect("a file has a kind");
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            collect(&entry.path(), paths);
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
}

fn source(path: &Path) -> Source {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).expect("the file can be read");
    let path = path.strip_prefix(root()).expect("the file is in the repository").to_string_lossy().replace('\\', "/");
    Source { path, text }
}

/// Whether `word` stands in `line` as a whole name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, behind) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(of_a_name) && !behind.starts_with(of_a_name)
    })
}
