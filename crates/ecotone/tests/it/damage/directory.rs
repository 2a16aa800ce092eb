//! Real directories with files of other programs: none of those files is touched.

use std::{fs, path::Path};

use ecotone::{Database, Engine, Error, KeyspaceOptions};

fn open(path: &Path) -> ecotone::Result<Database> {
    Database::builder(path).memory_budget(16 << 20).open()
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A directory with these files, each holding its own name.
fn with_files(files: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    files.iter().for_each(|name| fs::write(directory.path().join(name), name).unwrap());
    directory
}

fn assert_untouched(path: &Path, files: &[&str]) {
    files.iter().for_each(|name| assert_eq!(fs::read_to_string(path.join(name)).unwrap(), *name));
}

#[test]
fn a_directory_of_others_is_not_made_a_database() {
    // The last ones are named like ours, as rotated logs of a server are.
    for files in [&["notes.txt"][..], &["log.1", "log.2", "server.log"], &["pages.1"], &["table.3", "scratch.7"]] {
        let directory = with_files(files);
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(&error, Error::NotADatabase { .. }), "{files:?}: {error}");
        assert_untouched(directory.path(), files);
        assert_eq!(names(directory.path()).len(), files.len(), "{files:?}: nothing was added");
    }
}

#[test]
fn files_of_others_beside_a_database_stay() {
    let files = ["notes.txt", "log.old", "pages.01", "manifest", "manifest.1.bak", "LOCK.txt"];
    let directory = with_files(&[]);
    let path = directory.path();
    drop(open(path).unwrap().keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree)).unwrap());
    files.iter().for_each(|name| fs::write(path.join(name), name).unwrap());
    fs::create_dir(path.join("backup")).unwrap();
    let database = open(path).unwrap();
    database.open_keyspace("towns").unwrap().insert("a", "b").unwrap();
    database.close().unwrap();
    assert_eq!(open(path).unwrap().open_keyspace("towns").unwrap().get("a").unwrap().as_deref(), Some(&b"b"[..]));
    assert_untouched(path, &files);
    assert!(path.join("backup").is_dir());
}

#[test]
fn a_file_and_nothing_are_no_databases() {
    let directory = with_files(&["file"]);
    let error = open(&directory.path().join("file")).unwrap_err();
    assert!(matches!(&error, Error::NotADatabase { .. }), "{error}");
    assert_untouched(directory.path(), &["file"]);
    let missing = directory.path().join("missing");
    let error = Database::builder(&missing).create(false).open().unwrap_err();
    assert!(matches!(&error, Error::NotADatabase { .. }), "{error}");
    assert!(!missing.exists());
}

#[test]
fn a_directory_in_the_place_of_a_file_is_an_error() {
    let directory = with_files(&[]);
    let path = directory.path();
    drop(open(path).unwrap());
    let log = names(path).into_iter().find(|name| name.starts_with("log.")).unwrap();
    fs::remove_file(path.join(&log)).unwrap();
    fs::create_dir(path.join(&log)).unwrap();
    let error = open(path).unwrap_err();
    assert!(error.to_string().contains(&log), "{error}");
}
