//! The bytes of a root and of a version edit.

use ecotone_substrate::codec::hex::{golden, render};

use crate::manifest::tests::*;

const RUN: [(usize, &str); 2] = [(1, "level 0"), (1, "ordinal")];
const LEVEL: [(usize, &str); 1] = [(1, "depth")];

/// The labels of a table whose number takes `number` bytes.
fn table(number: usize) -> Vec<(usize, &'static str)> {
    vec![(number, "table: number"), (5, "birth")]
}

#[test]
fn the_bytes_of_a_root() {
    let (_, manifest) = example();
    let mut labels = vec![
        (1, "form"),
        (1, "kind of index"),
        (4, "error"),
        (8, "memtable"),
        (8, "table"),
        (2, "bits of a filter"),
        (1, "places"),
    ];
    let tables = |count: &[usize]| count.iter().flat_map(|number| table(*number)).collect::<Vec<_>>();
    labels.extend([&RUN[..], &[(1, "tables")], &tables(&[1, 1])].concat());
    labels.extend([&RUN[..], &[(1, "tables")], &tables(&[1])].concat());
    labels.extend([&LEVEL[..], &[(1, "tables")], &tables(&[2])].concat());
    labels.extend([&LEVEL[..], &[(1, "tables")], &tables(&[1, 1])].concat());
    golden("lsm-root", &render(&blob::encode(LsmOptions::default(), &manifest), &labels));
}

#[test]
fn the_bytes_of_structural_records() {
    let (changes, _) = example();
    let begin =
        |goes: Vec<_>| [&[(1, "form"), (1, "kind"), (1, "tables that go")][..], &goes, &[(1, "that come")]].concat();
    let level = || [&LEVEL[..], &table(1)].concat();
    let flush = [begin(vec![]), RUN.to_vec(), table(1), RUN.to_vec(), table(2)].concat();
    let compaction = [begin([table(1), table(2)].concat()), level(), level()].concat();
    let texts = [render(&changes[0].encode(), &flush), render(&changes[2].encode(), &compaction)];
    golden("lsm-structure", &texts.concat());
}

#[test]
fn the_bytes_of_changes_of_covers() {
    let paged_range = |kind| PagedRangeEdit { lower: b"a".to_vec(), upper: b"c".to_vec(), kind };
    let paged_ranges = vec![
        paged_range(RangeEditKind::Add(RunId::L0(5))),
        paged_range(RangeEditKind::Supersede(RunId::at_depth(12))),
        paged_range(RangeEditKind::Reactivate),
        paged_range(RangeEditKind::Remove),
        paged_range(RangeEditKind::SupersedeContained(RunId::L0(6))),
    ];
    let change = VersionEdit { paged_ranges, ..VersionEdit::default() };
    let range = |kind| [(1, kind), (2, "lower"), (2, "upper")];
    let mut labels = vec![(1, "form"), (1, "kind"), (1, "tables that go"), (1, "that come"), (1, "cover edits")];
    labels.extend(range("cover").into_iter().chain(RUN));
    labels.extend(range("raise").into_iter().chain(LEVEL));
    labels.extend(range("open").into_iter().chain(range("uncover")));
    labels.extend(range("lift").into_iter().chain(RUN));
    golden("adaptive-change", &render(&change.encode(), &labels));
}

#[test]
fn the_bytes_of_covers_in_a_root() {
    let (_, manifest) = example();
    let paged_range =
        |lower: &[u8], upper: &[u8], kind| PagedRangeEdit { lower: lower.to_vec(), upper: upper.to_vec(), kind };
    let paged_ranges = vec![
        paged_range(b"", b"c", RangeEditKind::Add(RunId::L0(2))),
        paged_range(b"c", b"eel", RangeEditKind::Add(RunId::at_depth(12))),
        paged_range(b"x", b"y", RangeEditKind::Add(RunId::LAST)),
        paged_range(b"x", b"y", RangeEditKind::Reactivate),
    ];
    let manifest = after(&manifest, &VersionEdit { paged_ranges, ..VersionEdit::default() }).unwrap();
    let mut w = Writer::new();
    manifest.paged_ranges().encode(&mut w);
    let range = |lower: usize, upper: usize| [(1 + lower, "cover: lower"), (1 + upper, "upper")];
    let mut labels = vec![(1, "covers")];
    labels.extend(range(0, 1).into_iter().chain(RUN));
    labels.extend(range(1, 3).into_iter().chain(LEVEL));
    labels.extend(range(1, 1).into_iter().chain([(1, "no floor")]));
    golden("adaptive-covers", &render(&w.finish(), &labels));
}
