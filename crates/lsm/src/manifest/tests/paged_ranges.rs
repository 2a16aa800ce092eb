//! Paged ranges and their edits, compared with a model of single keys.

use std::iter;

use ecotone_substrate::limits::{MAX_KEY, MAX_PAGED_RANGE_BYTES, MAX_PAGED_RANGES};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::manifest::tests::*;

fn edit(lower: &[u8], upper: &[u8], kind: RangeEditKind) -> VersionEdit {
    let (lower, upper) = (lower.to_vec(), upper.to_vec());
    VersionEdit { paged_ranges: vec![PagedRangeEdit { lower, upper, kind }], ..VersionEdit::default() }
}

/// For each key of one byte, the `superseded_from` of its paged range, if there is one.
type Model = [Option<Option<RunId>>; 256];

/// Applies an edit to a model. Returns false and changes nothing if the edit is invalid.
fn edit_model(model: &mut Model, (lower, upper): (usize, usize), kind: RangeEditKind) -> bool {
    if let RangeEditKind::SupersedeContained(superseded_from) = kind {
        return supersede_within(model, (lower, upper), superseded_from);
    }
    let part = &mut model[lower..upper.max(lower)];
    let is_new = matches!(kind, RangeEditKind::Add(_));
    if part.is_empty() || part.iter().any(|key| key.is_some() == is_new) {
        return false;
    }
    part.iter_mut().for_each(|key| {
        *key = match kind {
            RangeEditKind::Add(superseded_from) => Some(Some(superseded_from)),
            RangeEditKind::Supersede(superseded_from) => {
                key.map(|before| Some(before.map_or(superseded_from, |before| before.min(superseded_from))))
            }
            RangeEditKind::Reactivate => Some(None),
            RangeEditKind::Remove | RangeEditKind::SupersedeContained(_) => None,
        }
    });
    true
}

/// Applies a `SupersedeContained` to a model: to groups of adjacent equal keys that lie wholly in the range.
fn supersede_within(model: &mut Model, (lower, upper): (usize, usize), superseded_from: RunId) -> bool {
    for row in model.chunk_by_mut(|one, other| one == other).scan(0, |start, row| {
        *start += row.len();
        Some((*start - row.len(), row))
    }) {
        let (start, row) = row;
        let is_within = start >= lower && start + row.len() <= upper;
        row.iter_mut()
            .filter(|_| is_within)
            .flatten()
            .flatten()
            .for_each(|before| *before = superseded_from.min(*before));
    }
    lower < upper
}

fn kind(random: &mut SmallRng) -> RangeEditKind {
    let marks = [RunId::L0(2), RunId::L0(1), RunId::L0(0), RunId::at_depth(12), RunId::at_depth(2), RunId::LAST];
    let superseded_from = marks[random.random_range(0..marks.len())];
    match random.random_range(0..7) {
        0..3 => RangeEditKind::Add(superseded_from),
        3 => RangeEditKind::Supersede(superseded_from),
        4 => RangeEditKind::Reactivate,
        5 => RangeEditKind::SupersedeContained(superseded_from),
        _ => RangeEditKind::Remove,
    }
}

fn check(manifest: &LevelManifest, model: &Model) {
    for (key, wanted) in (0..=u8::MAX).zip(model) {
        assert_eq!(manifest.paged_ranges().at(&[key]).map(PagedRange::superseded_from), *wanted, "{key}");
    }
    let paged_ranges: Vec<_> = manifest.paged_ranges().iter().collect();
    assert!(paged_ranges.iter().all(|paged_range| paged_range.bounds().0 < paged_range.bounds().1));
    assert!(paged_ranges.windows(2).all(|pair| {
        let (left, right) = (pair[0].bounds().1, pair[1].bounds().0);
        left < right || (left == right && pair[0].superseded_from() != pair[1].superseded_from())
    }));
    assert_eq!(decode(&encode(manifest)).as_ref(), Ok(&**manifest.paged_ranges()));
}

/// The paged ranges as a root encodes them.
fn encode(manifest: &LevelManifest) -> Vec<u8> {
    let mut w = Writer::new();
    manifest.paged_ranges().encode(&mut w);
    w.finish()
}

fn decode(bytes: &[u8]) -> Result<PagedRanges, Malformed> {
    let mut r = Reader::new(bytes);
    let paged_ranges = PagedRanges::decode(&mut r)?;
    r.finish().map(|()| paged_ranges)
}

/// Checks that fragments begin and end where the model changes.
fn check_fragments(manifest: &LevelManifest, model: &Model) {
    let paged_ranges = manifest.paged_ranges();
    let is_in = |fragment: RangeFragment<'_>, key: usize| {
        let (key, Visibility { superseded_from, has_pages }) = ([key as u8], fragment.visibility);
        let reaches = fragment.lower <= &key[..] && fragment.upper.is_none_or(|upper| &key[..] < upper);
        reaches && has_pages.then_some(superseded_from) == model[usize::from(key[0])]
    };
    for key in 0..256 {
        let at = paged_ranges.fragment_at(&[key as u8]);
        assert!(is_in(at, key), "{key}: {at:?}");
        let ends = [at.lower, at.upper.unwrap_or_default()].map(|bound| bound.first().map(|key| usize::from(*key)));
        let inner = ends[0].unwrap_or(0)..ends[1].unwrap_or(256);
        assert!(inner.clone().all(|other| model[other] == model[key]), "{key}: {at:?}");
        let beside = [inner.start.checked_sub(1), Some(inner.end).filter(|end| *end < 256)];
        assert!(beside.into_iter().flatten().all(|other| model[other] != model[key]), "{key}: {at:?}");
        if key > 0 {
            assert!(is_in(paged_ranges.fragment_below(Some(&[key as u8])), key - 1), "{key}");
        }
    }
    assert!(is_in(paged_ranges.fragment_below(None), 255));
}

/// Checks which key ranges are visible in one run.
fn check_ranges(manifest: &LevelManifest, model: &Model, run_id: RunId) {
    let paged_ranges = manifest.paged_ranges();
    let is_visible = |key: usize| {
        model[key].is_none_or(|superseded_from| superseded_from.is_none_or(|superseded_from| run_id < superseded_from))
    };
    for first in 0..256 {
        assert_eq!(
            paged_ranges.is_visible_from(run_id, &[first as u8]),
            (first..256).all(is_visible),
            "{run_id:?} from {first}"
        );
        for last in (first..256).step_by(7) {
            let supersedes_all = paged_ranges.supersedes_all(run_id, &[first as u8], &[last as u8]);
            assert_eq!(supersedes_all, !(first..=last).any(is_visible), "{run_id:?} from {first} to {last}");
        }
    }
}

#[test]
fn paged_ranges_are_what_their_edits_make_of_each_key() {
    for seed in 0..40 {
        let (mut random, mut model, mut fitting) = (SmallRng::seed_from_u64(seed), [None; 256], 0);
        let (_, mut manifest) = example();
        for _ in 0..300 {
            let (lower, upper) = (random.random_range(0..200_usize), random.random_range(0..20));
            let (range, kind) = ((lower, (lower + upper).saturating_sub(3)), kind(&mut random));
            let change = edit(&[range.0 as u8], &[range.1 as u8], kind);
            assert_eq!(VersionEdit::decode(&change.encode()).as_ref(), Ok(&change));
            let fits = edit_model(&mut model, range, kind);
            match after(&manifest, &change) {
                Ok(next) => manifest = next,
                Err(what) => assert!(!fits, "seed {seed}, {change:?}: {what}"),
            }
            fitting += usize::from(fits);
            check(&manifest, &model);
        }
        check_fragments(&manifest, &model);
        [RunId::L0(2), RunId::L0(1), RunId::at_depth(12), RunId::LAST]
            .iter()
            .for_each(|run_id| check_ranges(&manifest, &model, *run_id));
        assert!(fitting > 20, "seed {seed}: {fitting}");
    }
}

#[test]
fn edits_of_one_record_are_made_one_after_the_other() {
    let (_, manifest) = example();
    let row = [
        edit(b"", b"c", RangeEditKind::Add(RunId::L0(1))),
        edit(b"c", b"k", RangeEditKind::Add(RunId::L0(0))),
        edit(b"b", b"e", RangeEditKind::Supersede(RunId::L0(1))),
        edit(b"a", b"b", RangeEditKind::Reactivate),
        edit(b"e", b"f", RangeEditKind::Remove),
    ];
    let mut parts = manifest.clone();
    row.iter().for_each(|change| parts.apply(change).unwrap());
    let whole = VersionEdit {
        paged_ranges: row.into_iter().flat_map(|change| change.paged_ranges).collect(),
        ..VersionEdit::default()
    };
    let at_once = after(&manifest, &whole).unwrap();
    assert_eq!(at_once, parts);
    let marks: Vec<_> = at_once
        .paged_ranges()
        .iter()
        .map(|paged_range| (paged_range.bounds(), paged_range.superseded_from()))
        .collect();
    let wanted: [((&[u8], &[u8]), _); 4] = [
        ((b"", b"a"), Some(RunId::L0(1))),
        ((b"a", b"b"), None),
        ((b"b", b"e"), Some(RunId::L0(1))),
        ((b"f", b"k"), Some(RunId::L0(0))),
    ];
    assert_eq!(marks, wanted);
}

#[test]
fn edits_leave_the_same_in_whatever_records_they_come() {
    for seed in 0..40 {
        let (mut random, mut model) = (SmallRng::seed_from_u64(seed), [None; 256]);
        let draw = || {
            let (lower, length) = (random.random_range(0..200), random.random_range(1..40));
            let kind = kind(&mut random);
            edit_model(&mut model, (lower, lower + length), kind)
                .then(|| edit(&[lower as u8], &[(lower + length) as u8], kind).paged_ranges.remove(0))
        };
        let edits: Vec<PagedRangeEdit> = iter::repeat_with(draw).flatten().take(60).collect();
        let (_, manifest) = example();
        let at_once = after(&manifest, &VersionEdit { paged_ranges: edits.clone(), ..VersionEdit::default() }).unwrap();
        check(&at_once, &model);
        let (mut parts, mut left) = (manifest, &edits[..]);
        while !left.is_empty() {
            let (paged_ranges, behind) = left.split_at(random.random_range(1..=left.len().min(7)));
            parts.apply(&VersionEdit { paged_ranges: paged_ranges.to_vec(), ..VersionEdit::default() }).unwrap();
            left = behind;
        }
        assert_eq!(parts, at_once, "seed {seed}");
    }
}

#[test]
fn a_run_comes_above_all_floors_also_when_there_is_no_run_left() {
    let (_, manifest) = example();
    let paged = after(&manifest, &edit(b"a", b"c", RangeEditKind::Add(RunId::L0(2)))).unwrap();
    let without_runs = after(&paged, &change(&[7, 8, 4], &[])).unwrap();
    assert_eq!(without_runs.next_ordinal(), 3);
    assert!(after(&without_runs, &change(&[], &[(RunId::L0(2), 20)])).is_err(), "it would not count");
    let next = after(&without_runs, &flush(&without_runs, &[20])).unwrap();
    assert_eq!(numbers(&next)[0], (RunId::L0(3), vec![20]));
    let uncovered = after(&without_runs, &edit(b"a", b"c", RangeEditKind::Remove)).unwrap();
    assert_eq!(uncovered.next_ordinal(), 0);
}

#[test]
fn a_flush_brings_a_run_and_the_floor_at_it() {
    let (_, manifest) = example();
    let paged = after(&manifest, &edit(b"a", b"c", RangeEditKind::Add(RunId::L0(2)))).unwrap();
    let raised = VersionEdit {
        paged_ranges: edit(b"a", b"c", RangeEditKind::Supersede(RunId::L0(3))).paged_ranges,
        ..flush(&paged, &[20])
    };
    let next = after(&paged, &raised).unwrap();
    assert_eq!(next.paged_ranges().at(b"b").and_then(PagedRange::superseded_from), Some(RunId::L0(3)));
    let without = VersionEdit { added: Vec::new(), ..raised };
    assert!(after(&paged, &without).is_err(), "there is no such run");
}

#[test]
fn an_absorption_takes_the_run_away_at_which_its_floor_is() {
    let (_, manifest) = example();
    let paged_ranges = edit(b"a", b"c", RangeEditKind::Add(RunId::L0(2))).paged_ranges;
    let next = after(&manifest, &VersionEdit { paged_ranges, ..change(&[7, 8, 4, 300, 5, 9], &[]) }).unwrap();
    assert_eq!((next.runs().count(), next.next_ordinal()), (0, 3));
}

#[test]
fn what_is_no_range_or_no_floor_does_not_fit() {
    let (_, manifest) = example();
    let superseded_from = RangeEditKind::Add(RunId::L0(2));
    for misfit in [
        edit(b"c", b"c", superseded_from),
        edit(b"c", b"a", superseded_from),
        edit(b"a", b"c", RangeEditKind::Reactivate),
        edit(b"a", b"c", RangeEditKind::Add(RunId::L0(3))),
        edit(b"a", b"c", RangeEditKind::Add(RunId::at_depth(13))),
    ] {
        assert!(after(&manifest, &misfit).is_err(), "{misfit:?}");
    }
    let long = edit(b"a", &[b'z'; MAX_KEY + 1], superseded_from);
    assert!(VersionEdit::decode(&long.encode()).is_err());
    let none = [2, 1, 0, 0, 0];
    assert!(VersionEdit::decode(&none).is_err(), "a change of paged ranges without one");
}

#[test]
fn there_are_4096_paged_ranges_at_most() {
    let superseded_from = RangeEditKind::Add(RunId::at_depth(12));
    let paged_ranges = |count: usize| -> Vec<PagedRangeEdit> {
        let bound = |number: usize| (number as u32).to_be_bytes().to_vec();
        (0..count)
            .map(|number| PagedRangeEdit {
                lower: bound(2 * number),
                upper: bound(2 * number + 1),
                kind: superseded_from,
            })
            .collect()
    };
    let most = VersionEdit { paged_ranges: paged_ranges(MAX_PAGED_RANGES), ..VersionEdit::default() };
    let full = after(&LevelManifest::default(), &most).unwrap();
    assert!(after(&full, &edit(b"x", b"y", superseded_from)).is_err());
    let too_many = VersionEdit { paged_ranges: paged_ranges(MAX_PAGED_RANGES + 1), ..VersionEdit::default() };
    assert!(VersionEdit::decode(&too_many.encode()).is_err());
}

/// The limit ensures that a checkpoint never fails because of paged ranges.
#[test]
fn bounds_of_paged_ranges_have_a_mebibyte_at_most() {
    let bound = |number: usize| [&(number as u16).to_be_bytes()[..], &[0; MAX_KEY - 2]].concat();
    let fits = MAX_PAGED_RANGE_BYTES / (2 * MAX_KEY);
    let change =
        |number: usize| edit(&bound(2 * number), &bound(2 * number + 1), RangeEditKind::Add(RunId::at_depth(12)));
    let full =
        (0..fits).try_fold(LevelManifest::default(), |manifest, number| after(&manifest, &change(number))).unwrap();
    assert_eq!(full.paged_ranges().iter().count(), fits);
    assert!(after(&full, &change(fits)).is_err());
    assert_eq!(decode(&encode(&full)).as_ref(), Ok(&**full.paged_ranges()));
    let mut w = Writer::new();
    w.varint(fits as u64 + 1);
    for number in 0..=fits {
        w.prefixed(&bound(2 * number)).prefixed(&bound(2 * number + 1)).u8(12);
    }
    assert!(decode(&w.finish()).is_err());
}

#[test]
fn every_cut_of_a_change_of_paged_ranges_is_noticed() {
    let (_, manifest) = example();
    let marks = [
        RangeEditKind::Add(RunId::L0(2)),
        RangeEditKind::Supersede(RunId::LAST),
        RangeEditKind::Reactivate,
        RangeEditKind::Remove,
    ];
    let paged_ranges: Vec<_> = marks.iter().flat_map(|kind| edit(b"a", b"b", *kind).paged_ranges).collect();
    let body = VersionEdit { paged_ranges, ..flush(&manifest, &[20]) }.encode();
    VersionEdit::decode(&body).unwrap();
    (0..body.len()).for_each(|cut| assert!(VersionEdit::decode(&body[..cut]).is_err(), "{cut}"));
    assert!(VersionEdit::decode(&[&body[..], &[0]].concat()).is_err());
}

#[test]
fn paged_ranges_of_a_root_are_refused_unless_they_are_whole_and_ascend() {
    let (_, manifest) = example();
    let row = [
        edit(b"a", b"c", RangeEditKind::Add(RunId::L0(2))),
        edit(b"c", b"e", RangeEditKind::Add(RunId::LAST)),
        edit(b"e", b"g", RangeEditKind::Add(RunId::LAST)),
        edit(b"e", b"g", RangeEditKind::Reactivate),
    ];
    let paged_ranges = row.into_iter().flat_map(|change| change.paged_ranges).collect();
    let manifest = after(&manifest, &VersionEdit { paged_ranges, ..VersionEdit::default() }).unwrap();
    let bytes = encode(&manifest);
    assert_eq!(decode(&bytes).as_ref(), Ok(&**manifest.paged_ranges()));
    (0..bytes.len()).for_each(|cut| assert!(decode(&bytes[..cut]).is_err(), "{cut}"));
    assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
    let paged_range = |lower: u8, upper: u8, superseded_from: u8| [1, lower, 1, upper, superseded_from];
    let root = |paged_ranges: &[[u8; 5]]| [&[paged_ranges.len() as u8], &paged_ranges.concat()[..]].concat();
    assert!(
        decode(&root(&[paged_range(2, 4, 1), paged_range(4, 5, 12), paged_range(6, 7, 255), paged_range(7, 8, 12)]))
            .is_ok()
    );
    for misfit in [
        root(&[paged_range(2, 2, 1)]),
        root(&[paged_range(3, 2, 1)]),
        root(&[paged_range(2, 4, 1), paged_range(3, 5, 2)]),
        root(&[paged_range(4, 5, 1), paged_range(2, 3, 2)]),
        root(&[paged_range(2, 4, 1), paged_range(4, 5, 1)]),
        root(&[paged_range(2, 4, 255), paged_range(4, 5, 255)]),
        root(&[paged_range(2, 4, 13)]),
        root(&[paged_range(2, 4, 254)]),
    ] {
        assert!(decode(&misfit).is_err(), "{misfit:?}");
    }
    let mut w = Writer::new();
    w.varint(MAX_PAGED_RANGES as u64 + 1);
    assert!(decode(&w.finish()).is_err());
}
