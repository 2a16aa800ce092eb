//! Sorts outlines and divides the key space among them, compared with brute force.

use std::sync::Arc;

use ecotone_substrate::memory::Memory;
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    SalvageSource,
    outline::{Outline, Role},
    sorter::{Sorted, Sorter},
    sweep::{CoveredRange, Sweep},
};

fn source() -> SalvageSource {
    let disk = Arc::new(SimStorage::new(1));
    SalvageSource { storage: disk.clone(), scratch: disk, memory: Memory::new(16 << 20), saved: None }
}

fn outline(lower: &[u8], upper: Option<&[u8]>, page: u32, sequence: u64) -> Outline {
    Outline {
        lower: lower.to_vec(),
        upper: upper.map(<[u8]>::to_vec),
        page,
        role: Role::Base,
        related: 1,
        sequence,
        named: false,
        expects: None,
    }
}

fn sorted(outlines: &[Outline]) -> Sorted {
    let mut sorter = Sorter::new(&source());
    outlines.iter().for_each(|outline| sorter.push(outline).unwrap());
    sorter.finish().unwrap()
}

fn pieces(outlines: &[Outline], indexed: bool) -> Vec<CoveredRange> {
    let mut sweep = Sweep::new(sorted(outlines), indexed);
    std::iter::from_fn(|| sweep.next()).map(|piece| piece.unwrap()).collect()
}

/// For each key of one byte: its page, and whether the page is doubtful.
fn by_key(pieces: &[CoveredRange]) -> Vec<Option<(u32, bool)>> {
    let covers = |piece: &&CoveredRange, key: &[u8]| {
        piece.range.0.as_slice() <= key && piece.range.1.as_ref().is_none_or(|end| key < end.as_slice())
    };
    let of = |key: u8| {
        let all: Vec<_> = pieces.iter().filter(|piece| covers(piece, &[key])).collect();
        assert_eq!(all.len(), 1, "every key is in one piece");
        all[0].page.as_ref().map(|page| (page.page, all[0].doubtful))
    };
    (0..=u8::MAX).map(of).collect()
}

#[test]
fn the_newest_page_has_each_key_and_a_part_of_a_page_is_doubtful() {
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut outlines: Vec<Outline> = (0..random.random_range(0..12))
            .map(|page| {
                let (a, b) = (random.random_range(0..200), random.random_range(0..250));
                let upper = [b.max(a + 1)];
                outline(&[a], (b < 240).then_some(&upper), page + 1, random.random_range(0..5))
            })
            .collect();
        outlines.iter_mut().for_each(|outline| outline.related = random.random_range(0..5));
        let found = by_key(&pieces(&outlines, false));
        for key in 0..=u8::MAX {
            let covering =
                outlines.iter().filter(|outline| outline.lower.as_slice() <= &[key] && !outline.ends_by(&[key]));
            let newest = covering.max_by_key(|outline| outline.rank());
            assert_eq!(
                found[usize::from(key)].map(|(page, _)| page),
                newest.map(|outline| outline.page),
                "seed {seed}, key {key}"
            );
            if let Some(newest) = newest {
                let wins = |key: u8| found[usize::from(key)].is_some_and(|(page, _)| page == newest.page);
                let all = (0..=u8::MAX)
                    .filter(|key| newest.lower.as_slice() <= &[*key] && !newest.ends_by(&[*key]))
                    .all(wins);
                assert_eq!(found[usize::from(key)].unwrap().1, !all, "seed {seed}, key {key}");
            }
        }
    }
}

#[test]
fn of_two_pages_of_one_sequence_the_higher_production_id_wins() {
    let (mut old, mut new) = (outline(b"", None, 9, 70), outline(b"", None, 3, 70));
    (old.related, new.related) = (4, 5);
    let pieces = pieces(&[old, new.clone()], false);
    assert_eq!(pieces, [CoveredRange { range: (vec![], None), page: Some(new), overflow: None, doubtful: false }]);
}

#[test]
fn a_page_that_the_index_names_wins_and_any_other_is_doubtful() {
    let (old, mut new) = (outline(b"", None, 9, 70), outline(b"k", Some(b"m"), 3, 7));
    new.named = true;
    let found: Vec<_> =
        pieces(&[old, new], true).iter().map(|piece| (piece.page.as_ref().unwrap().page, piece.doubtful)).collect();
    assert_eq!(found, [(9, true), (3, false), (9, true)]);
}

#[test]
fn a_newer_page_that_is_lost_makes_what_it_covered_doubtful() {
    let mut lost = outline(b"k", Some(b"m"), 3, 70);
    lost.role = Role::Lost;
    let pages = [outline(b"", Some(b"j"), 1, 7), outline(b"j", Some(b"l"), 2, 7), outline(b"l", None, 4, 90)];
    let found: Vec<_> = pieces(&[&pages[..], &[lost]].concat(), false).iter().map(|piece| piece.doubtful).collect();
    assert_eq!(found, [false, true, false]);
}

#[test]
fn an_overflow_page_belongs_to_the_base_page_that_it_names_if_the_fences_agree() {
    let overflow = |page, base, upper, sequence| Outline {
        role: Role::Overflow,
        related: base,
        ..outline(b"a", upper, page, sequence)
    };
    let base = outline(b"a", Some(b"c"), 5, 50);
    let strangers = [overflow(6, 5, Some(b"d"), 90), overflow(7, 4, Some(b"c"), 91)];
    let of = |outlines: &[Outline]| pieces(outlines, false)[1].overflow;
    assert_eq!(of(&[&[base.clone()][..], &strangers].concat()), None);
    let (older, newer) = (overflow(8, 5, Some(b"c"), 20), overflow(9, 5, Some(b"c"), 30));
    assert_eq!(of(&[&[base.clone(), newer.clone(), older.clone()][..], &strangers].concat()), Some(9));
    // An intact index overrides the headers of the pages.
    let named = |expects| Outline { named: true, expects, ..base.clone() };
    let given = |expects| {
        let pieces = pieces(&[named(expects), newer.clone(), older.clone()], true);
        (pieces[1].overflow, pieces[1].doubtful)
    };
    assert_eq!([given(Some(8)), given(None), given(Some(10))], [(Some(8), false), (None, false), (None, true)]);
}

#[test]
fn outlines_that_do_not_fit_into_memory_are_sorted_on_disk() {
    let source = source();
    let mut sorter = Sorter::new(&source);
    let mut random = SmallRng::seed_from_u64(4);
    let mut expected = Vec::new();
    for page in 0..6000 {
        let lower: Vec<u8> = (0..random.random_range(0..1024)).map(|_| random.random()).collect();
        let upper = [&lower[..], b"\0"].concat();
        let outline = outline(&lower, (lower.len() < 1000).then_some(&upper), page, u64::from(page));
        sorter.push(&outline).unwrap();
        expected.push(outline);
    }
    let scratch = || source.scratch.list().unwrap().len();
    assert!(scratch() >= 2, "{} runs", scratch());
    expected.sort_by(|a, b| (&a.lower, a.page).cmp(&(&b.lower, b.page)));
    let mut sorted = sorter.finish().unwrap();
    let mut found: Vec<Outline> = std::iter::from_fn(|| sorted.next().unwrap()).collect();
    assert!(found.is_sorted_by(|a, b| a.lower <= b.lower));
    found.sort_by(|a, b| (&a.lower, a.page).cmp(&(&b.lower, b.page)));
    assert!(found == expected);
    drop(sorted);
    assert_eq!(scratch(), 0);
}
