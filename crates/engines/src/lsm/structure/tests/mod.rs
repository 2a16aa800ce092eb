//! Structures and their records.

mod covers;
mod golden;
mod histories;
mod misfits;

use super::*;
use crate::lsm::{blob, options::LsmOptions};

fn file(number: u32) -> File {
    File { number, birth: 0x7_0000_0000 + u64::from(number) }
}

/// A change by numbers.
fn change(goes: &[u32], comes: &[(Place, u32)]) -> Change {
    let comes = comes.iter().map(|(place, number)| (*place, file(*number))).collect();
    Change { goes: goes.iter().map(|number| file(*number)).collect(), comes, ..Change::default() }
}

fn flush(structure: &Structure, numbers: &[u32]) -> Change {
    let run = Place::Run(structure.next_ordinal());
    change(&[], &numbers.iter().map(|number| (run, *number)).collect::<Vec<_>>())
}

fn after(structure: &Structure, change: &Change) -> Result<Structure, Misfit> {
    let mut next = structure.clone();
    next.apply(change).map(|()| next)
}

/// The numbers in each place.
fn numbers(structure: &Structure) -> Vec<(Place, Vec<u32>)> {
    structure.places().map(|(place, tables)| (place, tables.iter().map(|file| file.number).collect())).collect()
}

/// Two runs and two levels, and the changes that made them.
fn example() -> (Vec<Change>, Structure) {
    let (mut changes, mut structure) = (Vec::new(), Structure::default());
    let mut make = |change: Change, structure: &mut Structure| {
        structure.apply(&change).unwrap();
        changes.push(change);
    };
    make(flush(&structure, &[3, 200]), &mut structure);
    make(flush(&structure, &[4]), &mut structure);
    make(change(&[3, 200], &[(Place::Level(1), 5), (Place::Level(1), 6)]), &mut structure);
    make(flush(&structure, &[7, 8]), &mut structure);
    make(change(&[6], &[(Place::Level(1), 9), (Place::Level(2), 300)]), &mut structure);
    (changes, structure)
}

#[test]
fn an_example_is_as_its_changes_say() {
    let (changes, structure) = example();
    let places = [
        (Place::Run(2), vec![7, 8]),
        (Place::Run(1), vec![4]),
        (Place::Level(2), vec![300]),
        (Place::Level(1), vec![5, 9]),
    ];
    assert_eq!(numbers(&structure), places);
    assert_eq!((structure.place_of(file(9)), structure.place_of(file(6))), (Some(Place::Level(1)), None));
    assert_eq!(changes[2].drops().collect::<Vec<_>>(), [file(3), file(200)]);
}

#[test]
fn a_move_takes_a_table_deeper_and_drops_none() {
    let (_, structure) = example();
    let moves = change(&[300], &[(Place::Level(1), 300)]);
    assert_eq!(moves.drops().count(), 0);
    let next = after(&structure, &moves).unwrap();
    assert_eq!(numbers(&next)[2..], [(Place::Level(1), vec![5, 9, 300])]);
}

#[test]
fn a_run_is_younger_than_all_that_are_there() {
    let (_, structure) = example();
    assert_eq!(structure.next_ordinal(), 3);
    let without = after(&structure, &change(&[7, 8, 4], &[])).unwrap();
    assert_eq!(without.next_ordinal(), 0, "nothing is left that it could be older than");
    let part = after(&structure, &change(&[7, 4], &[(Place::Run(2), 10)])).unwrap();
    assert_eq!(numbers(&part)[0], (Place::Run(2), vec![8, 10]), "what a run becomes stays where it was");
}

#[test]
fn roots_and_changes_come_back_and_every_cut_is_noticed() {
    let (changes, structure) = example();
    let root = blob::encode(LsmOptions::default(), &structure);
    assert_eq!(blob::decode(&root), Ok((LsmOptions::default(), structure)));
    (0..root.len()).for_each(|cut| assert!(blob::decode(&root[..cut]).is_err(), "root, {cut}"));
    assert!(blob::decode(&[&root[..], &[0]].concat()).is_err());
    for change in changes {
        let body = change.encode();
        assert_eq!(Change::decode(&body).as_ref(), Ok(&change));
        (0..body.len()).for_each(|cut| assert!(Change::decode(&body[..cut]).is_err(), "{change:?}, {cut}"));
        assert!(Change::decode(&[&body[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_table_takes_a_few_bytes_of_a_root() {
    let mut structure = Structure::default();
    let tables: Vec<_> = (1..=1000).map(|number| (Place::Level(1), number)).collect();
    structure.apply(&change(&[], &tables)).unwrap();
    assert!(blob::encode(LsmOptions::default(), &structure).len() < 1000 * 8);
}
