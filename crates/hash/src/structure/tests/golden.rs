//! The bytes of a root and of each structure edit.

use ecotone_substrate::codec::hex::{golden, render};

use super::*;

const FILE: [(usize, &str); 2] = [(1, "file: number"), (5, "birth")];

fn segment() -> Vec<(usize, &'static str)> {
    [&FILE[..], &[(8, "first address"), (8, "bytes of log")]].concat()
}

fn base(there: bool) -> Vec<(usize, &'static str)> {
    let file: &[(usize, &str)] = if there { &[(1, "base: number"), (5, "birth")] } else { &[(1, "no base")] };
    [&[(1, "partition: bits"), (1, "number")], file].concat()
}

#[test]
fn the_bytes_of_a_root() {
    let (_, manifest) = example();
    let mut labels = vec![
        (1, "form"),
        (8, "disk"),
        (8, "hot_disk"),
        (1, "compaction"),
        (1, "bits of the index"),
        (8, "BEGIN"),
        (8, "DURABLE"),
        (1, "segments"),
    ];
    labels.extend([segment(), segment()].concat());
    labels.push((1, "deltas"));
    labels.extend([&FILE[..], &[(8, "until")], &FILE, &[(8, "until")]].concat());
    labels.push((1, "partitions"));
    labels.extend([base(true), vec![(8, "folded up to")], base(false), vec![(8, "folded up to")]].concat());
    golden(
        "hash-root",
        &render(
            &blob::encode(
                HashOptions { disk: Some(1 << 30), hot_disk: 7 << 20, compaction: Compaction::Scan, read_cache: true },
                &manifest,
            ),
            &labels,
        ),
    );
}

#[test]
fn the_bytes_of_structural_records() {
    let merge = ManifestEdit::MergeDeltas { deleted: vec![file(3), file(7)], added: Some(file(8)) };
    let changes = [
        (ManifestEdit::Segment(LogFile { file: file(6), from: page(257), bytes: 2 * MIB }), segment()),
        (compact(Some(7), 100, 300), [&FILE[..], &[(8, "BEGIN"), (8, "DURABLE"), (1, "bits of the index")]].concat()),
        (
            ManifestEdit::MergeIntoBase {
                deleted: part(0, 0, None),
                added: vec![part(1, 0, Some(4)), part(1, 1, None)],
                merged_until: page(20),
            },
            [base(false), vec![(1, "parts that come")], base(true), base(false), vec![(8, "folded up to")]].concat(),
        ),
        (
            merge,
            [&[(1, "deltas that go")], &FILE[..], &FILE, &[(1, "delta that comes: number"), (5, "birth")]].concat(),
        ),
    ];
    let text: Vec<String> = changes
        .into_iter()
        .map(|(change, labels)| render(&change.encode(), &[&[(1, "form"), (1, "kind")], &labels[..]].concat()))
        .collect();
    golden("hash-structure", &text.concat());
}
