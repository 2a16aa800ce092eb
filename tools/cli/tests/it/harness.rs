//! Running the binary and looking at what it says.

use std::{
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_ecotone");

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: Vec<u8>,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// Judges a finished process; a panic is never right.
    pub(crate) fn of(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = output.status.code().unwrap_or_else(|| panic!("ended by a signal: {:?}, {stderr}", output.status));
        Run { code, stdout: output.stdout, stderr }
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// Standard output as JSON, a value a line.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
            .collect()
    }

    /// Asserts that all went well, and nothing was said on standard error.
    pub(crate) fn good(self) -> Self {
        assert!(self.code == 0 && self.stderr.is_empty(), "exit code {}, {}", self.code, self.stderr);
        self
    }

    /// Asserts an exit code and words on standard error, with nothing on standard output.
    pub(crate) fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert!(self.stdout.is_empty(), "{:?}", self.text());
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {:?}", self.stderr);
        }
    }
}

/// A directory with one database in it.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    /// Nothing in it yet.
    pub(crate) fn new() -> Self {
        Place { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A database with some records in the keyspace `default`.
    pub(crate) fn with_lines(lines: &str) -> Self {
        let place = Place::new();
        place.feed("load", &["-", "--format", "tsv"], lines.as_bytes()).good();
        place
    }

    /// The directory around the database.
    pub(crate) fn around(&self) -> &Path {
        self.directory.path()
    }

    /// Path of the database.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    /// Writes a file beside the database.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path.to_str().expect("text").to_owned()
    }

    /// Runs a command on the database.
    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> Run {
        self.feed(command, arguments, b"")
    }

    /// Runs a command on another database.
    pub(crate) fn run_on(&self, path: &Path, command: &str, arguments: &[&str]) -> Run {
        feed(path, command, arguments, b"")
    }

    /// Runs a command on the database with standard input.
    pub(crate) fn feed(&self, command: &str, arguments: &[&str], input: &[u8]) -> Run {
        feed(&self.path(), command, arguments, input)
    }
}

fn feed(path: &Path, command: &str, arguments: &[&str], input: &[u8]) -> Run {
    let all = [OsStr::new(command), path.as_os_str()].into_iter().chain(arguments.iter().map(OsStr::new));
    let mut child = Command::new(BINARY)
        .args(all)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The command may end without reading its input.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    Run::of(child.wait_with_output().expect("the binary ends"))
}
