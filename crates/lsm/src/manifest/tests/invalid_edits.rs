//! Invalid edits and roots.

use crate::manifest::tests::*;

#[track_caller]
fn misfit(deleted: &[u32], added: &[(RunId, u32)]) {
    let (_, manifest) = example();
    let change = change(deleted, added);
    assert!(after(&manifest, &change).is_err(), "{change:?}");
}

#[test]
fn what_goes_is_there_once() {
    misfit(&[6], &[]);
    misfit(&[5, 5], &[]);
    let (_, manifest) = example();
    let of_another_birth = VersionEdit { deleted: vec![FileRef { birth: 1, ..file(5) }], ..VersionEdit::default() };
    assert!(after(&manifest, &of_another_birth).is_err());
}

#[test]
fn what_comes_is_nowhere_else() {
    misfit(&[], &[(RunId::LAST, 300)]);
    misfit(&[], &[(RunId::LAST, 10), (RunId::at_depth(2), 10)]);
    misfit(&[], &[(RunId::LAST, 10), (RunId::LAST, 10)]);
    let (_, manifest) = example();
    let twin = FileRef { birth: 1, ..file(5) };
    for deleted in [vec![], vec![file(5)]] {
        let change = VersionEdit { deleted, added: vec![(RunId::LAST, twin)], ..VersionEdit::default() };
        assert!(after(&manifest, &change).is_err(), "a number has one table at a time: {change:?}");
    }
}

#[test]
fn a_run_that_comes_is_the_youngest() {
    misfit(&[], &[(RunId::L0(0), 10)]);
    misfit(&[7, 8], &[(RunId::L0(0), 10)]);
    misfit(&[], &[(RunId::L0(1 << 56), 10)]);
    misfit(&[], &[(RunId::L0(u64::MAX), 10)]);
}

#[test]
fn nothing_moves_up() {
    misfit(&[5], &[(RunId::LAST, 5)]);
    misfit(&[5], &[(RunId::at_depth(2), 5)]);
    misfit(&[5], &[(RunId::L0(3), 5)]);
    misfit(&[300], &[(RunId::at_depth(0), 300)]);
    misfit(&[300], &[(RunId::at_depth(13), 300)]);
}

#[test]
fn level_0_has_64_runs_at_most() {
    let mut manifest = LevelManifest::default();
    for number in 1..=MAX_RUNS as u32 {
        manifest.apply(&flush(&manifest, &[number])).unwrap();
    }
    assert!(after(&manifest, &flush(&manifest, &[1000])).is_err());
    let run = RunId::L0(manifest.next_ordinal());
    after(&manifest, &change(&[1], &[(run, 1000)])).unwrap();
}

#[test]
fn places_of_a_root_are_in_order_and_not_empty() {
    let root = |places: &[(RunId, &[u32])]| {
        let mut w = Writer::new();
        w.varint(places.len() as u64);
        for (run_id, tables) in places {
            run_id.encode(&mut w);
            w.varint(tables.len() as u64);
            tables.iter().for_each(|number| FileRef::encode(Some(file(*number)), &mut w));
        }
        LevelManifest::decode(&mut Reader::new(w.as_slice())).is_ok()
    };
    assert!(root(&[(RunId::L0(4), &[1]), (RunId::L0(2), &[2]), (RunId::at_depth(2), &[3]), (RunId::LAST, &[4, 9])]));
    assert!(!root(&[(RunId::L0(2), &[1]), (RunId::L0(4), &[2])]));
    assert!(!root(&[(RunId::LAST, &[1]), (RunId::L0(4), &[2])]));
    assert!(!root(&[(RunId::LAST, &[1]), (RunId::LAST, &[2])]));
    assert!(!root(&[(RunId::LAST, &[])]));
    assert!(!root(&[(RunId::LAST, &[2, 1])]));
    assert!(!root(&[(RunId::LAST, &[1, 1])]));
    assert!(!root(&[(RunId::L0(0), &[1]), (RunId::LAST, &[1])]));
    assert!(!root(&[(RunId::L0(1 << 56), &[1])]));
    assert!(!root(&[(RunId::at_depth(13), &[1])]));
}
