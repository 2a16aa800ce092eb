//! Plans of many kinds of records: every page fits, and every key is placed on its page.

mod sets;

use ecotone_substrate::{
    limits::MAX_KEY,
    page::{PageAddress, PageKind},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::{
    index::Placement,
    merge::{PageSpec, build},
};

const GOALS: FillPolicy = FillPolicy { fill: FillFactor::Even(90), most_pages: 16, model: Model::Optimal };

/// The upper fences of all pages of a plan, in order.
fn uppers<'a>(plan: &'a [SegmentPlan], upper: Option<&'a [u8]>) -> impl Iterator<Item = Option<&'a [u8]>> {
    let lowers = plan.iter().flat_map(|planned| &planned.pages).skip(1).map(|part| Some(part.lower.as_slice()));
    lowers.chain([upper])
}

/// Builds every page, and checks every placement for records, fences and keys between them.
fn check(records: &Records, lower: &[u8], upper: Option<&[u8]>, policy: &FillPolicy, plan: &[SegmentPlan]) {
    let mut next = 0;
    let mut uppers = uppers(plan, upper);
    assert_eq!(plan[0].pages[0].lower, lower);
    for planned in plan {
        let pages = planned.pages.len() as u8;
        assert!(planned.placement.suits(pages) && pages <= policy.most_pages, "{planned:?}");
        for (position, part) in planned.pages.iter().enumerate() {
            let upper = uppers.next().expect("each page has an upper fence");
            assert!(upper.is_none_or(|upper| part.lower.as_slice() < upper), "{part:?} ends at {upper:?}");
            assert_eq!(part.records.start, next);
            next = part.records.end;
            let shape = PageSpec { kind: PageKind::Base, related: 0, lower: &part.lower, upper };
            let content = part.records.clone().map(|at| records.get(at));
            build(&mut [0; 4096], PageAddress { file: 1, page: 1 }, shape, content, 1);
            let segment = &planned.pages[0].lower;
            let page = |key: &[u8]| usize::from(planned.placement.page(segment, key, pages));
            if position > 0 {
                assert_eq!(planned.placement.fence(segment, position as u8, pages), part.lower);
            }
            assert_eq!(page(&part.lower), position);
            for key in part.records.clone().map(|at| records.get(at).0) {
                assert_eq!(page(key), position);
                let behind = [key, &[0]].concat();
                assert!(page(&behind) == position || upper.is_some_and(|upper| *upper <= *behind));
                if let Some((last, rest)) = key.split_last().filter(|(last, _)| **last > 0) {
                    let before = [rest, &[last - 1, 255, 255]].concat();
                    assert!(
                        page(&before) == position
                            || before < part.lower
                            || upper.is_some_and(|upper| *upper <= *before)
                    );
                }
            }
        }
    }
    assert_eq!(next, records.len());
}

fn checked(records: &Records, lower: &[u8], upper: Option<&[u8]>, policy: &FillPolicy) -> [Vec<SegmentPlan>; 2] {
    [spread, fill_up].map(|plan| {
        let planned = plan(records, lower, upper, policy);
        check(records, lower, upper, policy, &planned);
        planned
    })
}

fn counts(plan: &[SegmentPlan]) -> Vec<usize> {
    plan.iter().flat_map(|planned| &planned.pages).map(|part| part.records.len()).collect()
}

fn has_line(planned: &SegmentPlan) -> bool {
    matches!(planned.placement, Placement::Line { .. })
}

#[test]
fn pages_are_even_and_fit() {
    let mut records = Records::default();
    (0..100u64).for_each(|i| records.push(&(i * 1000).to_be_bytes(), &[7; 100]));
    let [spread, _] = checked(&records, &[], None, &GOALS);
    let sizes = counts(&spread);
    assert!(sizes.len() == 4 && sizes.iter().all(|size| (24..=26).contains(size)), "{sizes:?}");
}

/// For density 1/x² on [1/2, 1] the part below x is 2 - 1/x. A page may miss its target by a twentieth.
#[test]
fn spread_pages_have_the_density_of_the_sound_remedy_and_no_lines() {
    let mut records = Records::default();
    (0..40_000u64).for_each(|i| records.push(&(i * 1000).to_be_bytes(), &[7; 40]));
    let policy = FillPolicy { fill: FillFactor::Spread { most: 100, seed: 3 }, ..GOALS };
    let [spread, _] = checked(&records, &[], None, &policy);
    assert!(!spread.iter().any(has_line) && spread.len() < counts(&spread).len() / 10);
    let [full, _] = checked(&records, &[], None, &FillPolicy { fill: FillFactor::Even(100), ..GOALS });
    let full = *counts(&full).iter().max().unwrap() as f64;
    let parts: Vec<f64> = counts(&spread).into_iter().map(|count| count as f64 / full).collect();
    for x in [0.45, 0.6, 0.7, 0.8, 0.9] {
        let below = parts.iter().filter(|part| **part < x).count() as f64 / parts.len() as f64;
        assert!((below - (2.0 - 1.0 / x).max(0.0)).abs() < 0.08, "{below} are below {x}");
    }
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    assert!((mean - 2f64.ln()).abs() < 0.03, "{mean}");
}

#[test]
fn shared_prefixes_do_not_count() {
    let mut records = Records::default();
    (0..200u32).for_each(|i| records.push(format!("{}{i:04}", "prefix/".repeat(20)).as_bytes(), b"value"));
    let (lower, upper) = ("prefix/".repeat(20), "prefix/".repeat(20) + "1");
    let [spread, _] = checked(&records, lower.as_bytes(), Some(upper.as_bytes()), &GOALS);
    assert!(counts(&spread).len() <= 2, "{:?}", counts(&spread));
}

#[test]
fn the_largest_records_and_fences_fit() {
    let mut records = Records::default();
    for i in 0..40u8 {
        let mut key = vec![b'k'; MAX_KEY];
        key[MAX_KEY - 1] = i;
        records.push(&key, &[1; 876]);
    }
    let upper = [b'k'; MAX_KEY];
    let policy =
        [FillFactor::Even(1), FillFactor::Even(90), FillFactor::Even(100), FillFactor::Spread { most: 100, seed: 1 }]
            .map(|fill| FillPolicy { fill, ..GOALS });
    for policy in &policy {
        checked(&records, &[], None, policy);
        checked(&records, &[], Some(&upper), policy);
        checked(&records, &upper[..MAX_KEY - 1], Some(&upper), policy);
    }
}

#[test]
fn nothing_is_one_empty_page() {
    let empty =
        SegmentPlan { placement: Placement::Single, pages: vec![PagePlan { lower: b"a".to_vec(), records: 0..0 }] };
    assert_eq!(checked(&Records::default(), b"a", Some(b"b"), &GOALS), [vec![empty.clone()], vec![empty]]);
}

#[test]
fn even_steps_are_lines_of_the_most_pages() {
    for (step, bytes) in [(1, 56), (1, 1016), (1000, 56), (1 << 40, 1016)] {
        let mut records = Records::default();
        (0..3000u64).for_each(|i| records.push(&(i * step).to_be_bytes(), &vec![7; bytes]));
        for model in [Model::Optimal, Model::Greedy] {
            let [_, filled] = checked(&records, &[], None, &FillPolicy { model, ..GOALS });
            let whole = counts(&filled).len() / 16;
            let kinds: Vec<_> =
                filled[..whole].iter().map(|planned| (has_line(planned), planned.pages.len())).collect();
            assert!(kinds.iter().all(|kind| *kind == (true, 16)), "{step} {bytes} {model:?}: {kinds:?}");
            let least = if bytes == 56 { 46 } else { 3 };
            let sizes = counts(&filled[..whole]);
            assert!(sizes.iter().all(|size| *size >= least), "{step} {bytes}: {sizes:?}");
        }
    }
}

#[test]
fn one_page_at_most_makes_no_segments_of_several() {
    let mut records = Records::default();
    (0..3000u64).for_each(|i| records.push(&i.to_be_bytes(), &[7; 56]));
    for plan in checked(&records, &[], None, &FillPolicy { most_pages: 1, ..GOALS }) {
        assert!(plan.iter().all(|planned| planned.placement == Placement::Single));
    }
}

/// Keys with long common parts, equal digests, zeros at their ends and all lengths.
fn random_key(random: &mut SmallRng, alphabet: &[u8]) -> Vec<u8> {
    let stems: [&[u8]; 4] =
        [b"", b"\0\0\0\0\0\0", b"usr/share/doc/", b"usr/share/doc/\xff\xff\xff\xff\xff\xff\xff\xff\xff"];
    let stem = stems[random.random_range(0..stems.len())];
    let tail = (0..random.random_range(1..14)).map(|_| alphabet[random.random_range(0..alphabet.len())]);
    stem.iter().copied().chain(tail).collect()
}

#[test]
fn random_records_are_placed_where_they_lie() {
    let mut lines = 0;
    for seed in 0..400 {
        let mut random = SmallRng::seed_from_u64(seed);
        let alphabet: &[u8] = if seed % 2 == 0 { &[0, 1, 255] } else { b"\0\x01\x02\x7fabcdefgh\xfe\xff" };
        let mut keys: Vec<Vec<u8>> = match seed % 4 {
            0 | 1 => (0..random.random_range(1..1200)).map(|_| random_key(&mut random, alphabet)).collect(),
            2 => (0..1200u64).map(|i| (i * i * i).to_be_bytes().to_vec()).collect(),
            _ => (0..1200).map(|_| random.random::<u64>().to_be_bytes().to_vec()).collect(),
        };
        keys.sort();
        keys.dedup();
        let longest = [8, 60, 300, 800][random.random_range(0..4)];
        let mut records = Records::default();
        keys.iter().for_each(|key| records.push(key, &vec![1; random.random_range(0..longest)]));
        let most = if seed % 5 == 0 { random.random_range(1..=100) } else { 90 };
        let fill = if seed % 6 == 1 { FillFactor::Spread { most, seed } } else { FillFactor::Even(most) };
        let most_pages = if seed % 7 == 0 { random.random_range(1..=16) } else { 16 };
        let policy = FillPolicy { fill, most_pages, model: if seed % 3 == 0 { Model::Greedy } else { Model::Optimal } };
        let last = keys[keys.len() - 1].clone();
        let (lower, upper) =
            if seed % 2 == 0 { (vec![], None) } else { (keys[0].clone(), Some([&last[..], &[0]].concat())) };
        for plan in checked(&records, &lower, upper.as_deref(), &policy) {
            lines += plan.iter().filter(|planned| has_line(planned)).count();
        }
    }
    assert!(lines > 100, "{lines} lines");
}
