//! Invalid edits and roots.

use super::*;

#[track_caller]
fn misfit(change: &ManifestEdit) {
    let (_, manifest) = example();
    assert!(manifest.after(change).is_err(), "{change:?}");
}

#[test]
fn a_segment_follows_the_last_one() {
    let (_, manifest) = example();
    let (end, segment) = (manifest.segments[1].end(), |from, bytes| LogFile { file: file(9), from, bytes });
    assert!(manifest.after(&ManifestEdit::Segment(segment(end, MIB))).is_ok());
    for wrong in [
        segment(end.plus(PAGE), MIB),
        segment(page(257), MIB),
        segment(end, MIB - 1),
        segment(end, MIB / 8),
        segment(end, 128 * MIB),
        segment(Address::new(u64::MAX - PAGE + 1), MIB),
    ] {
        misfit(&ManifestEdit::Segment(wrong));
    }
    misfit(&ManifestEdit::Segment(LogFile { file: file(6), from: end, bytes: MIB }));
    let ahead = ManifestEdit::Segment(segment(page(101), MIB));
    assert!(made(&[compact(None, 100, 100)]).after(&ahead).is_err(), "pages before it would be nowhere");
}

#[test]
fn the_hot_log_begins_later_each_time_and_ends_in_a_segment() {
    misfit(&compact(None, 100, 300));
    misfit(&compact(None, 99, 300));
    misfit(&compact(None, 101, 1_000));
    misfit(&compact(None, 400, 399));
    misfit(&compact(Some(7), 101, 300));
    assert!(example().1.after(&compact(Some(9), 5_000, 5_000)).is_ok(), "beyond all segments");
    let (next, _) = example().1.after(&compact(None, 101, 299)).unwrap();
    assert_eq!(next.durable, page(300), "a root that was taken meanwhile says more");
}

#[test]
fn a_base_merge_replaces_what_is_there() {
    let merge_into_base =
        |deleted, added, merged_until| ManifestEdit::MergeIntoBase { deleted, added, merged_until: page(merged_until) };
    let (there, absent) = (part(1, 0, Some(5)), part(1, 0, Some(4)));
    misfit(&merge_into_base(absent, vec![part(1, 0, None)], 100));
    misfit(&merge_into_base(there, vec![], 100));
    misfit(&merge_into_base(there, vec![part(1, 1, None)], 100));
    misfit(&merge_into_base(there, vec![part(2, 0, None)], 100));
    misfit(&merge_into_base(there, vec![part(2, 1, None), part(2, 0, None)], 100));
    misfit(&merge_into_base(there, vec![part(1, 0, None)], 39));
    misfit(&merge_into_base(there, vec![part(1, 0, None)], 101));
    misfit(&merge_into_base(there, vec![part(1, 0, Some(7))], 100));
    misfit(&merge_into_base(there, vec![part(1, 0, Some(5))], 100));
}

#[test]
fn a_merge_takes_neighbours() {
    let merge = |deleted: &[u32], added: Option<u32>| ManifestEdit::MergeDeltas {
        deleted: deleted.iter().map(|number| file(*number)).collect(),
        added: added.map(file),
    };
    misfit(&merge(&[], Some(9)));
    misfit(&merge(&[7, 3], Some(9)));
    misfit(&merge(&[3, 9], Some(10)));
    misfit(&merge(&[3, 7, 7], Some(9)));
    misfit(&merge(&[3], Some(6)));
    misfit(&merge(&[3], Some(3)));
    let more = made(&[compact(Some(1), 10, 10), compact(Some(2), 20, 20), compact(Some(3), 30, 30)]);
    assert!(more.after(&merge(&[1, 3], None)).is_err());
    let (merged, gone) = more.after(&merge(&[1, 2], Some(4))).unwrap();
    let deltas: Vec<_> = merged.deltas.iter().map(|delta| (delta.file, delta.until)).collect();
    assert_eq!((deltas, gone.tables), (vec![(file(4), page(20)), (file(3), page(30))], vec![file(1), file(2)]));
}

#[test]
fn there_are_255_deltas_at_most() {
    let mut manifest = HashManifest::new(10);
    for number in 0..MAX_DELTAS as u32 {
        manifest = manifest.after(&compact(Some(number + 1), u64::from(number) + 2, u64::from(number) + 2)).unwrap().0;
    }
    assert!(manifest.after(&compact(Some(1_000), 400, 400)).is_err());
    assert!(manifest.after(&compact(None, 400, 400)).is_ok());
}

#[test]
fn partitions_have_all_hashes_once() {
    let with = |parts: &[(u8, u8)]| {
        let partition =
            |(bits, number): &(u8, u8)| Partition { part: part(*bits, *number, None), merged_until: page(1) };
        HashManifest { partitions: parts.iter().map(partition).collect(), ..HashManifest::new(10) }.check()
    };
    assert_eq!(with(&[(1, 0), (2, 2), (3, 6), (3, 7)]), Ok(()));
    let all: Vec<_> = (0..=u8::MAX).map(|number| (8, number)).collect();
    assert_eq!(with(&all), Ok(()));
    for wrong in [&[][..], &[(1, 0)], &[(1, 1)], &[(1, 1), (1, 0)], &[(1, 0), (1, 0)], &[(0, 0), (0, 0)], &all[1..]] {
        assert!(with(wrong).is_err(), "{wrong:?}");
    }
}
