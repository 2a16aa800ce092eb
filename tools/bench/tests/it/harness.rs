//! Runs the binary.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// A directory on a real disk: temporary directories may lie in memory, where direct I/O and the kernel's counters say
/// nothing.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Runs `ecotone-bench` with these arguments.
pub(crate) fn bench(arguments: &str, directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecotone-bench"));
    command.args(arguments.split_whitespace()).arg("--dir").arg(directory).output().unwrap()
}

/// The lines of JSON that a successful run printed.
pub(crate) fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The one row of a successful run.
pub(crate) fn line(arguments: &str, directory: &Path) -> Value {
    let mut lines = lines(&bench(arguments, directory));
    assert!(lines.len() == 1 && lines[0]["kind"] == "row", "{lines:?}");
    lines.remove(0)
}

/// What a failing run says; no row of it may have ended well.
pub(crate) fn failure(arguments: &str, directory: &Path) -> String {
    let output = bench(arguments, directory);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && !printed.contains("\"status\":\"ok\""), "{printed}");
    String::from_utf8(output.stderr).unwrap()
}

/// A number of a result.
pub(crate) fn number(result: &Value, name: &str) -> f64 {
    result[name].as_f64().unwrap_or_else(|| panic!("{name} is {}", result[name]))
}
