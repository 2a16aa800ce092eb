//! Changes and roots that cannot be.

use super::*;

#[track_caller]
fn misfit(goes: &[u32], comes: &[(Place, u32)]) {
    let (_, structure) = example();
    let change = change(goes, comes);
    assert!(after(&structure, &change).is_err(), "{change:?}");
}

#[test]
fn what_goes_is_there_once() {
    misfit(&[6], &[]);
    misfit(&[5, 5], &[]);
    let (_, structure) = example();
    let of_another_birth = Change { goes: vec![File { birth: 1, ..file(5) }], ..Change::default() };
    assert!(after(&structure, &of_another_birth).is_err());
}

#[test]
fn what_comes_is_nowhere_else() {
    misfit(&[], &[(Place::Level(1), 300)]);
    misfit(&[], &[(Place::Level(1), 10), (Place::Level(2), 10)]);
    misfit(&[], &[(Place::Level(1), 10), (Place::Level(1), 10)]);
    let (_, structure) = example();
    let twin = File { birth: 1, ..file(5) };
    for goes in [vec![], vec![file(5)]] {
        let change = Change { goes, comes: vec![(Place::Level(1), twin)], ..Change::default() };
        assert!(after(&structure, &change).is_err(), "a number has one table at a time: {change:?}");
    }
}

#[test]
fn a_run_that_comes_is_the_youngest() {
    misfit(&[], &[(Place::Run(0), 10)]);
    misfit(&[7, 8], &[(Place::Run(0), 10)]);
    misfit(&[], &[(Place::Run(1 << 56), 10)]);
    misfit(&[], &[(Place::Run(u64::MAX), 10)]);
}

#[test]
fn nothing_moves_up() {
    misfit(&[5], &[(Place::Level(1), 5)]);
    misfit(&[5], &[(Place::Level(2), 5)]);
    misfit(&[5], &[(Place::Run(3), 5)]);
    misfit(&[300], &[(Place::Level(0), 300)]);
    misfit(&[300], &[(Place::Level(13), 300)]);
}

#[test]
fn level_0_has_64_runs_at_most() {
    let mut structure = Structure::default();
    for number in 1..=MAX_RUNS as u32 {
        structure.apply(&flush(&structure, &[number])).unwrap();
    }
    assert!(after(&structure, &flush(&structure, &[1000])).is_err());
    let run = Place::Run(structure.next_ordinal());
    after(&structure, &change(&[1], &[(run, 1000)])).unwrap();
}

#[test]
fn places_of_a_root_are_in_order_and_not_empty() {
    let root = |places: &[(Place, &[u32])]| {
        let mut w = Writer::new();
        w.varint(places.len() as u64);
        for (place, tables) in places {
            place.encode(&mut w);
            w.varint(tables.len() as u64);
            tables.iter().for_each(|number| File::encode(Some(file(*number)), &mut w));
        }
        Structure::decode(&mut Reader::new(w.as_slice())).is_ok()
    };
    assert!(root(&[(Place::Run(4), &[1]), (Place::Run(2), &[2]), (Place::Level(2), &[3]), (Place::Level(1), &[4, 9])]));
    assert!(!root(&[(Place::Run(2), &[1]), (Place::Run(4), &[2])]));
    assert!(!root(&[(Place::Level(1), &[1]), (Place::Run(4), &[2])]));
    assert!(!root(&[(Place::Level(1), &[1]), (Place::Level(1), &[2])]));
    assert!(!root(&[(Place::Level(1), &[])]));
    assert!(!root(&[(Place::Level(1), &[2, 1])]));
    assert!(!root(&[(Place::Level(1), &[1, 1])]));
    assert!(!root(&[(Place::Run(0), &[1]), (Place::Level(1), &[1])]));
    assert!(!root(&[(Place::Run(1 << 56), &[1])]));
    assert!(!root(&[(Place::Level(13), &[1])]));
}
