//! Covers and their edits, against what single keys become.

use std::iter;

use ecotone_substrate::limits::{MAX_COVER_BYTES, MAX_COVERS, MAX_KEY};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

fn edit(lower: &[u8], upper: &[u8], becomes: Become) -> Change {
    let (lower, upper) = (lower.to_vec(), upper.to_vec());
    Change { covers: vec![CoverEdit { lower, upper, becomes }], ..Change::default() }
}

/// Of each key of one byte its floor, if it is covered.
type Model = [Option<Option<Place>>; 256];

/// What an edit makes of a model. False, and nothing, if it does not fit.
fn edit_model(model: &mut Model, (lower, upper): (usize, usize), becomes: Become) -> bool {
    if let Become::Lifted(floor) = becomes {
        return lift(model, (lower, upper), floor);
    }
    let part = &mut model[lower..upper.max(lower)];
    let is_new = matches!(becomes, Become::Covered(_));
    if part.is_empty() || part.iter().any(|key| key.is_some() == is_new) {
        return false;
    }
    part.iter_mut().for_each(|key| {
        *key = match becomes {
            Become::Covered(floor) => Some(Some(floor)),
            Become::Raised(floor) => key.map(|before| Some(before.map_or(floor, |before| before.min(floor)))),
            Become::Open => Some(None),
            Become::Uncovered | Become::Lifted(_) => None,
        }
    });
    true
}

/// The same of an edit for covers that lie wholly in a range: rows of keys that are alike.
fn lift(model: &mut Model, (lower, upper): (usize, usize), floor: Place) -> bool {
    for row in model.chunk_by_mut(|one, other| one == other).scan(0, |start, row| {
        *start += row.len();
        Some((*start - row.len(), row))
    }) {
        let (start, row) = row;
        let is_within = start >= lower && start + row.len() <= upper;
        row.iter_mut().filter(|_| is_within).flatten().flatten().for_each(|before| *before = floor.min(*before));
    }
    lower < upper
}

fn becomes(random: &mut SmallRng) -> Become {
    let floors = [Place::Run(2), Place::Run(1), Place::Run(0), Place::Level(12), Place::Level(2), Place::Level(1)];
    let floor = floors[random.random_range(0..floors.len())];
    match random.random_range(0..7) {
        0..3 => Become::Covered(floor),
        3 => Become::Raised(floor),
        4 => Become::Open,
        5 => Become::Lifted(floor),
        _ => Become::Uncovered,
    }
}

fn check(structure: &Structure, model: &Model) {
    for (key, wanted) in (0..=u8::MAX).zip(model) {
        assert_eq!(structure.covers().at(&[key]).map(Cover::floor), *wanted, "{key}");
    }
    let covers: Vec<_> = structure.covers().iter().collect();
    assert!(covers.iter().all(|cover| cover.bounds().0 < cover.bounds().1));
    assert!(covers.windows(2).all(|pair| {
        let (left, right) = (pair[0].bounds().1, pair[1].bounds().0);
        left < right || (left == right && pair[0].floor() != pair[1].floor())
    }));
    assert_eq!(decode(&encode(structure)).as_ref(), Ok(&**structure.covers()));
}

/// What a root has of covers.
fn encode(structure: &Structure) -> Vec<u8> {
    let mut w = Writer::new();
    structure.covers().encode(&mut w);
    w.finish()
}

fn decode(bytes: &[u8]) -> Result<Covers, Malformed> {
    let mut r = Reader::new(bytes);
    let covers = Covers::decode(&mut r)?;
    r.finish().map(|()| covers)
}

/// Stretches of keys of one byte are where a model does not change.
fn check_stretches(structure: &Structure, model: &Model) {
    let covers = structure.covers();
    let is_in = |stretch: Stretch<'_>, key: usize| {
        let (key, floor) = ([key as u8], stretch.cover.map(Cover::floor));
        let reaches = stretch.lower <= &key[..] && stretch.upper.is_none_or(|upper| &key[..] < upper);
        reaches && floor == model[usize::from(key[0])]
    };
    for key in 0..256 {
        let at = covers.stretch_at(&[key as u8]);
        assert!(is_in(at, key), "{key}: {at:?}");
        let ends = [at.lower, at.upper.unwrap_or_default()].map(|bound| bound.first().map(|key| usize::from(*key)));
        let inner = ends[0].unwrap_or(0)..ends[1].unwrap_or(256);
        assert!(inner.clone().all(|other| model[other] == model[key]), "{key}: {at:?}");
        let beside = [inner.start.checked_sub(1), Some(inner.end).filter(|end| *end < 256)];
        assert!(beside.into_iter().flatten().all(|other| model[other] != model[key]), "{key}: {at:?}");
        if key > 0 {
            assert!(is_in(covers.stretch_below(Some(&[key as u8])), key - 1), "{key}");
        }
    }
    assert!(is_in(covers.stretch_below(None), 255));
}

/// What counts of ranges of keys of one byte, at one place.
fn check_ranges(structure: &Structure, model: &Model, place: Place) {
    let covers = structure.covers();
    let counts = |key: usize| model[key].is_none_or(|floor| floor.is_none_or(|floor| place < floor));
    for first in 0..256 {
        assert_eq!(covers.counts_from(place, &[first as u8]), (first..256).all(counts), "{place:?} from {first}");
        for last in (first..256).step_by(7) {
            let hides = covers.hides(place, &[first as u8], &[last as u8]);
            assert_eq!(hides, !(first..=last).any(counts), "{place:?} from {first} to {last}");
        }
    }
}

#[test]
fn covers_are_what_their_edits_make_of_each_key() {
    for seed in 0..40 {
        let (mut random, mut model, mut fitting) = (SmallRng::seed_from_u64(seed), [None; 256], 0);
        let (_, mut structure) = example();
        for _ in 0..300 {
            let (lower, upper) = (random.random_range(0..200_usize), random.random_range(0..20));
            let (range, becomes) = ((lower, (lower + upper).saturating_sub(3)), becomes(&mut random));
            let change = edit(&[range.0 as u8], &[range.1 as u8], becomes);
            assert_eq!(Change::decode(&change.encode()).as_ref(), Ok(&change));
            let fits = edit_model(&mut model, range, becomes);
            match after(&structure, &change) {
                Ok(next) => structure = next,
                Err(what) => assert!(!fits, "seed {seed}, {change:?}: {what}"),
            }
            fitting += usize::from(fits);
            check(&structure, &model);
        }
        check_stretches(&structure, &model);
        [Place::Run(2), Place::Run(1), Place::Level(12), Place::Level(1)]
            .iter()
            .for_each(|place| check_ranges(&structure, &model, *place));
        assert!(fitting > 20, "seed {seed}: {fitting}");
    }
}

#[test]
fn edits_of_one_record_are_made_one_after_the_other() {
    let (_, structure) = example();
    let row = [
        edit(b"", b"c", Become::Covered(Place::Run(1))),
        edit(b"c", b"k", Become::Covered(Place::Run(0))),
        edit(b"b", b"e", Become::Raised(Place::Run(1))),
        edit(b"a", b"b", Become::Open),
        edit(b"e", b"f", Become::Uncovered),
    ];
    let mut parts = structure.clone();
    row.iter().for_each(|change| parts.apply(change).unwrap());
    let whole = Change { covers: row.into_iter().flat_map(|change| change.covers).collect(), ..Change::default() };
    let at_once = after(&structure, &whole).unwrap();
    assert_eq!(at_once, parts);
    let floors: Vec<_> = at_once.covers().iter().map(|cover| (cover.bounds(), cover.floor())).collect();
    let wanted: [((&[u8], &[u8]), _); 4] = [
        ((b"", b"a"), Some(Place::Run(1))),
        ((b"a", b"b"), None),
        ((b"b", b"e"), Some(Place::Run(1))),
        ((b"f", b"k"), Some(Place::Run(0))),
    ];
    assert_eq!(floors, wanted);
}

#[test]
fn edits_leave_the_same_in_whatever_records_they_come() {
    for seed in 0..40 {
        let (mut random, mut model) = (SmallRng::seed_from_u64(seed), [None; 256]);
        let draw = || {
            let (lower, length) = (random.random_range(0..200), random.random_range(1..40));
            let becomes = becomes(&mut random);
            edit_model(&mut model, (lower, lower + length), becomes)
                .then(|| edit(&[lower as u8], &[(lower + length) as u8], becomes).covers.remove(0))
        };
        let edits: Vec<CoverEdit> = iter::repeat_with(draw).flatten().take(60).collect();
        let (_, structure) = example();
        let at_once = after(&structure, &Change { covers: edits.clone(), ..Change::default() }).unwrap();
        check(&at_once, &model);
        let (mut parts, mut left) = (structure, &edits[..]);
        while !left.is_empty() {
            let (covers, behind) = left.split_at(random.random_range(1..=left.len().min(7)));
            parts.apply(&Change { covers: covers.to_vec(), ..Change::default() }).unwrap();
            left = behind;
        }
        assert_eq!(parts, at_once, "seed {seed}");
    }
}

#[test]
fn a_run_comes_above_all_floors_also_when_there_is_no_run_left() {
    let (_, structure) = example();
    let covered = after(&structure, &edit(b"a", b"c", Become::Covered(Place::Run(2)))).unwrap();
    let without_runs = after(&covered, &change(&[7, 8, 4], &[])).unwrap();
    assert_eq!(without_runs.next_ordinal(), 3);
    assert!(after(&without_runs, &change(&[], &[(Place::Run(2), 20)])).is_err(), "it would not count");
    let next = after(&without_runs, &flush(&without_runs, &[20])).unwrap();
    assert_eq!(numbers(&next)[0], (Place::Run(3), vec![20]));
    let uncovered = after(&without_runs, &edit(b"a", b"c", Become::Uncovered)).unwrap();
    assert_eq!(uncovered.next_ordinal(), 0);
}

#[test]
fn a_flush_brings_a_run_and_the_floor_at_it() {
    let (_, structure) = example();
    let covered = after(&structure, &edit(b"a", b"c", Become::Covered(Place::Run(2)))).unwrap();
    let raised = Change { covers: edit(b"a", b"c", Become::Raised(Place::Run(3))).covers, ..flush(&covered, &[20]) };
    let next = after(&covered, &raised).unwrap();
    assert_eq!(next.covers().at(b"b").and_then(Cover::floor), Some(Place::Run(3)));
    let without = Change { comes: Vec::new(), ..raised };
    assert!(after(&covered, &without).is_err(), "there is no such run");
}

#[test]
fn an_absorption_takes_the_run_away_at_which_its_floor_is() {
    let (_, structure) = example();
    let covers = edit(b"a", b"c", Become::Covered(Place::Run(2))).covers;
    let next = after(&structure, &Change { covers, ..change(&[7, 8, 4, 300, 5, 9], &[]) }).unwrap();
    assert_eq!((next.places().count(), next.next_ordinal()), (0, 3));
}

#[test]
fn what_is_no_range_or_no_floor_does_not_fit() {
    let (_, structure) = example();
    let floor = Become::Covered(Place::Run(2));
    for misfit in [
        edit(b"c", b"c", floor),
        edit(b"c", b"a", floor),
        edit(b"a", b"c", Become::Open),
        edit(b"a", b"c", Become::Covered(Place::Run(3))),
        edit(b"a", b"c", Become::Covered(Place::Level(13))),
    ] {
        assert!(after(&structure, &misfit).is_err(), "{misfit:?}");
    }
    let long = edit(b"a", &[b'z'; MAX_KEY + 1], floor);
    assert!(Change::decode(&long.encode()).is_err());
    let none = [2, 1, 0, 0, 0];
    assert!(Change::decode(&none).is_err(), "a change of covers without one");
}

#[test]
fn there_are_4096_covers_at_most() {
    let floor = Become::Covered(Place::Level(12));
    let covers = |count: usize| -> Vec<CoverEdit> {
        let bound = |number: usize| (number as u32).to_be_bytes().to_vec();
        (0..count)
            .map(|number| CoverEdit { lower: bound(2 * number), upper: bound(2 * number + 1), becomes: floor })
            .collect()
    };
    let most = Change { covers: covers(MAX_COVERS), ..Change::default() };
    let full = after(&Structure::default(), &most).unwrap();
    assert!(after(&full, &edit(b"x", b"y", floor)).is_err());
    let too_many = Change { covers: covers(MAX_COVERS + 1), ..Change::default() };
    assert!(Change::decode(&too_many.encode()).is_err());
}

/// So that a checkpoint never fails because of them.
#[test]
fn bounds_of_covers_have_a_mebibyte_at_most() {
    let bound = |number: usize| [&(number as u16).to_be_bytes()[..], &[0; MAX_KEY - 2]].concat();
    let fits = MAX_COVER_BYTES / (2 * MAX_KEY);
    let change = |number: usize| edit(&bound(2 * number), &bound(2 * number + 1), Become::Covered(Place::Level(12)));
    let full =
        (0..fits).try_fold(Structure::default(), |structure, number| after(&structure, &change(number))).unwrap();
    assert_eq!(full.covers().iter().count(), fits);
    assert!(after(&full, &change(fits)).is_err());
    assert_eq!(decode(&encode(&full)).as_ref(), Ok(&**full.covers()));
    let mut w = Writer::new();
    w.varint(fits as u64 + 1);
    for number in 0..=fits {
        w.prefixed(&bound(2 * number)).prefixed(&bound(2 * number + 1)).u8(12);
    }
    assert!(decode(&w.finish()).is_err());
}

#[test]
fn every_cut_of_a_change_of_covers_is_noticed() {
    let (_, structure) = example();
    let floors = [Become::Covered(Place::Run(2)), Become::Raised(Place::Level(1)), Become::Open, Become::Uncovered];
    let covers: Vec<_> = floors.iter().flat_map(|becomes| edit(b"a", b"b", *becomes).covers).collect();
    let body = Change { covers, ..flush(&structure, &[20]) }.encode();
    Change::decode(&body).unwrap();
    (0..body.len()).for_each(|cut| assert!(Change::decode(&body[..cut]).is_err(), "{cut}"));
    assert!(Change::decode(&[&body[..], &[0]].concat()).is_err());
}

#[test]
fn covers_of_a_root_are_refused_unless_they_are_whole_and_ascend() {
    let (_, structure) = example();
    let row = [
        edit(b"a", b"c", Become::Covered(Place::Run(2))),
        edit(b"c", b"e", Become::Covered(Place::Level(1))),
        edit(b"e", b"g", Become::Covered(Place::Level(1))),
        edit(b"e", b"g", Become::Open),
    ];
    let covers = row.into_iter().flat_map(|change| change.covers).collect();
    let structure = after(&structure, &Change { covers, ..Change::default() }).unwrap();
    let bytes = encode(&structure);
    assert_eq!(decode(&bytes).as_ref(), Ok(&**structure.covers()));
    (0..bytes.len()).for_each(|cut| assert!(decode(&bytes[..cut]).is_err(), "{cut}"));
    assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
    let cover = |lower: u8, upper: u8, floor: u8| [1, lower, 1, upper, floor];
    let root = |covers: &[[u8; 5]]| [&[covers.len() as u8], &covers.concat()[..]].concat();
    assert!(decode(&root(&[cover(2, 4, 1), cover(4, 5, 12), cover(6, 7, 255), cover(7, 8, 12)])).is_ok());
    for misfit in [
        root(&[cover(2, 2, 1)]),
        root(&[cover(3, 2, 1)]),
        root(&[cover(2, 4, 1), cover(3, 5, 2)]),
        root(&[cover(4, 5, 1), cover(2, 3, 2)]),
        root(&[cover(2, 4, 1), cover(4, 5, 1)]),
        root(&[cover(2, 4, 255), cover(4, 5, 255)]),
        root(&[cover(2, 4, 13)]),
        root(&[cover(2, 4, 254)]),
    ] {
        assert!(decode(&misfit).is_err(), "{misfit:?}");
    }
    let mut w = Writer::new();
    w.varint(MAX_COVERS as u64 + 1);
    assert!(decode(&w.finish()).is_err());
}
