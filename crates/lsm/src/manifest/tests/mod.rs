//! Tests of manifests and version edits.

mod golden;
mod histories;
mod invalid_edits;
mod paged_ranges;

use crate::{blob, manifest::*, options::LsmOptions};

fn file(number: u32) -> FileRef {
    FileRef { number, birth: 0x7_0000_0000 + u64::from(number) }
}

/// An edit of tables by their numbers.
fn change(deleted: &[u32], added: &[(RunId, u32)]) -> VersionEdit {
    let added = added.iter().map(|(run_id, number)| (*run_id, file(*number))).collect();
    VersionEdit { deleted: deleted.iter().map(|number| file(*number)).collect(), added, ..VersionEdit::default() }
}

fn flush(manifest: &LevelManifest, numbers: &[u32]) -> VersionEdit {
    let run = RunId::L0(manifest.next_ordinal());
    change(&[], &numbers.iter().map(|number| (run, *number)).collect::<Vec<_>>())
}

fn after(manifest: &LevelManifest, change: &VersionEdit) -> Result<LevelManifest, InvalidEdit> {
    let mut next = manifest.clone();
    next.apply(change).map(|()| next)
}

/// The numbers of the tables in each run and level.
fn numbers(manifest: &LevelManifest) -> Vec<(RunId, Vec<u32>)> {
    manifest.runs().map(|(run_id, tables)| (run_id, tables.iter().map(|file| file.number).collect())).collect()
}

/// A manifest of two runs and two levels, and the edits that made it.
fn example() -> (Vec<VersionEdit>, LevelManifest) {
    let (mut changes, mut manifest) = (Vec::new(), LevelManifest::default());
    let mut make = |change: VersionEdit, manifest: &mut LevelManifest| {
        manifest.apply(&change).unwrap();
        changes.push(change);
    };
    make(flush(&manifest, &[3, 200]), &mut manifest);
    make(flush(&manifest, &[4]), &mut manifest);
    make(change(&[3, 200], &[(RunId::LAST, 5), (RunId::LAST, 6)]), &mut manifest);
    make(flush(&manifest, &[7, 8]), &mut manifest);
    make(change(&[6], &[(RunId::LAST, 9), (RunId::at_depth(2), 300)]), &mut manifest);
    (changes, manifest)
}

#[test]
fn an_example_is_as_its_changes_say() {
    let (changes, manifest) = example();
    let places = [
        (RunId::L0(2), vec![7, 8]),
        (RunId::L0(1), vec![4]),
        (RunId::at_depth(2), vec![300]),
        (RunId::LAST, vec![5, 9]),
    ];
    assert_eq!(numbers(&manifest), places);
    assert_eq!((manifest.run_of(file(9)), manifest.run_of(file(6))), (Some(RunId::LAST), None));
    assert_eq!(changes[2].dropped().collect::<Vec<_>>(), [file(3), file(200)]);
}

#[test]
fn a_move_takes_a_table_deeper_and_drops_none() {
    let (_, manifest) = example();
    let moves = change(&[300], &[(RunId::LAST, 300)]);
    assert_eq!(moves.dropped().count(), 0);
    let next = after(&manifest, &moves).unwrap();
    assert_eq!(numbers(&next)[2..], [(RunId::LAST, vec![5, 9, 300])]);
}

#[test]
fn a_run_is_younger_than_all_that_are_there() {
    let (_, manifest) = example();
    assert_eq!(manifest.next_ordinal(), 3);
    let without = after(&manifest, &change(&[7, 8, 4], &[])).unwrap();
    assert_eq!(without.next_ordinal(), 0, "nothing is left that it could be older than");
    let part = after(&manifest, &change(&[7, 4], &[(RunId::L0(2), 10)])).unwrap();
    assert_eq!(numbers(&part)[0], (RunId::L0(2), vec![8, 10]), "what a run becomes stays where it was");
}

#[test]
fn roots_and_changes_come_back_and_every_cut_is_noticed() {
    let (changes, manifest) = example();
    let root = blob::encode(LsmOptions::default(), &manifest);
    assert_eq!(blob::decode(&root), Ok((LsmOptions::default(), manifest)));
    (0..root.len()).for_each(|cut| assert!(blob::decode(&root[..cut]).is_err(), "root, {cut}"));
    assert!(blob::decode(&[&root[..], &[0]].concat()).is_err());
    for change in changes {
        let body = change.encode();
        assert_eq!(VersionEdit::decode(&body).as_ref(), Ok(&change));
        (0..body.len()).for_each(|cut| assert!(VersionEdit::decode(&body[..cut]).is_err(), "{change:?}, {cut}"));
        assert!(VersionEdit::decode(&[&body[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_table_takes_a_few_bytes_of_a_root() {
    let mut manifest = LevelManifest::default();
    let tables: Vec<_> = (1..=1000).map(|number| (RunId::LAST, number)).collect();
    manifest.apply(&change(&[], &tables)).unwrap();
    assert!(blob::encode(LsmOptions::default(), &manifest).len() < 1000 * 8);
}
