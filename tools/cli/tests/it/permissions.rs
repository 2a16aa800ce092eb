//! A database whose files the user may not touch. Root may touch everything, so there the binary runs as `nobody`.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use crate::harness::{BINARY, Place, Run};

/// Runs a command without privileges, or says why that cannot be done.
fn unprivileged(arguments: &[&Path]) -> Option<Run> {
    if !rustix::process::getuid().is_root() {
        return Some(Run::of(Command::new(BINARY).args(arguments).output().expect("the binary runs")));
    }
    let setpriv = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
        command
    };
    if !setpriv(BINARY).arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: the tests run as root, and setpriv cannot run {BINARY} as another user");
        return None;
    }
    Some(Run::of(setpriv(BINARY).args(arguments).output().expect("setpriv runs")))
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the test owns the path");
}

#[test]
fn missing_permissions_are_told() {
    let place = Place::with_lines("a\t1\n");
    allow(place.around(), 0o755);
    let database = place.path();
    for mode in [0o000, 0o444, 0o555] {
        allow(&database, mode);
        fs::read_dir(&database).into_iter().flatten().flatten().for_each(|file| allow(&file.path(), 0o400));
        let Some(run) = unprivileged(&[Path::new("get"), &database, Path::new("a")]) else { return };
        allow(&database, 0o755);
        // Who owns the directory can open it and fails at the files, if at all.
        if run.code != 0 {
            run.fails(1, &["ermission denied"]);
        }
    }
    assert_eq!(place.run("get", &["a"]).good().text(), "1\n");
}

#[test]
fn a_parent_that_may_not_be_written() {
    let place = Place::new();
    allow(place.around(), 0o555);
    let run = unprivileged(&[Path::new("put"), &place.path(), Path::new("a"), Path::new("1")]);
    allow(place.around(), 0o755);
    if let Some(run) = run {
        run.fails(1, &["ermission denied", "change the permissions"]);
    }
    assert!(!place.path().exists());
}
