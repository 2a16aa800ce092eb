//! The evaluator against plain search, the fitters against brute force in exact integers.

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Debug, Clone, Copy)]
struct Interval {
    x: i128,
    low: i128,
    high: i128,
}

/// Whether some line goes through all intervals. If one does, then one that goes through ends of two of them does.
fn stabbed(intervals: &[Interval]) -> bool {
    let ends: Vec<(i128, i128)> = intervals.iter().flat_map(|at| [(at.x, at.low), (at.x, at.high)]).collect();
    let through_all = |a: (i128, i128), b: (i128, i128)| {
        let (rise, run) = (b.1 - a.1, b.0 - a.0);
        // y * run on the line, against the ends times run.
        intervals.iter().all(|at| (at.low * run..=at.high * run).contains(&(rise * (at.x - a.0) + a.1 * run)))
    };
    intervals.len() < 2 || ends.iter().any(|a| ends.iter().any(|b| a.0 < b.0 && through_all(*a, *b)))
}

/// Whether a line from the middle of the first interval goes through all.
fn reached_from_the_first(intervals: &[Interval]) -> bool {
    let Some((first, rest)) = intervals.split_first() else { return true };
    let (x, y) = (first.x, (first.low + first.high).div_euclid(2));
    let slopes: Vec<(i128, i128)> =
        rest.iter().flat_map(|at| [at.low, at.high].map(|end| (end - y, at.x - x))).collect();
    let through_all = |(rise, run): (i128, i128)| {
        rest.iter().all(|at| ((at.low - y) * run..=(at.high - y) * run).contains(&(rise * (at.x - x))))
    };
    rest.is_empty() || slopes.into_iter().any(through_all)
}

/// Pushes intervals into a fitter. Returns those that it takes, and whether each decision agrees with `possible`.
fn taken(fitter: &mut impl Fitter, intervals: &[Interval], possible: impl Fn(&[Interval]) -> bool) -> Vec<Interval> {
    let mut taken = Vec::new();
    for interval in intervals {
        taken.push(*interval);
        let fits = fitter.push(interval.x as u64, interval.low as u64, interval.high as u64);
        assert_eq!(fits, possible(&taken), "{taken:?}");
        if !fits {
            taken.pop();
        }
    }
    taken
}

fn goes_through(fit: Fit, intervals: &[Interval]) -> bool {
    intervals.iter().all(|at| {
        let y = fit.slope * at.x as f64 + fit.intercept;
        at.low as f64 - 1e-3 <= y && y <= at.high as f64 + 1e-3
    })
}

/// Intervals at rising places; with `scale` they lie near a line of that slope, so that many fit.
fn intervals() -> impl Strategy<Value = Vec<Interval>> {
    let interval = (1..9i128, 0..40i128, 0..12i128);
    (vec(interval, 0..24), prop_oneof![Just(0), 1..6i128]).prop_map(|(drawn, scale)| {
        let mut x = 0;
        let place = |(step, above, height): (i128, i128, i128)| {
            x += step;
            let low = scale * x + above % if scale == 0 { 40 } else { 9 };
            Interval { x, low, high: low + height }
        };
        drawn.into_iter().map(place).collect()
    })
}

/// Number of segments that a fitter makes of intervals, none of which may be skipped.
fn pieces<F: Fitter + Default>(intervals: &[Interval]) -> usize {
    let mut fitter = F::default();
    let mut pieces = 1;
    for at in intervals {
        if !fitter.push(at.x as u64, at.low as u64, at.high as u64) {
            fitter = F::default();
            pieces += 1;
            assert!(fitter.push(at.x as u64, at.low as u64, at.high as u64), "one interval always fits");
        }
    }
    pieces
}

fn line() -> impl Strategy<Value = Line> {
    let slope = prop_oneof![Just(0.0f32), 1e-19..1e-12f32, 1e-6..1e-3f32, 0.001..3.0f32, 1e3..1e30f32];
    let intercept = prop_oneof![Just(0.0f32), -20.0..20.0f32, -1e9..1e9f32];
    (slope, intercept).prop_map(|(slope, intercept)| Line::new(slope, intercept).unwrap())
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..11)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn optimal_takes_whatever_some_line_goes_through(intervals in intervals()) {
        let mut fitter = OptimalPla::default();
        let taken = taken(&mut fitter, &intervals, stabbed);
        prop_assert_eq!(fitter.fit().is_some(), taken.len() > 1);
        prop_assert!(fitter.fit().is_none_or(|fit| goes_through(fit, &taken)));
    }

    #[test]
    fn greedy_takes_whatever_a_line_from_the_first_reaches(intervals in intervals()) {
        let mut fitter = GreedyPlr::default();
        let taken = taken(&mut fitter, &intervals, reached_from_the_first);
        prop_assert_eq!(fitter.fit().is_some(), taken.len() > 1);
        prop_assert!(fitter.fit().is_none_or(|fit| goes_through(fit, &taken)));
    }

    #[test]
    fn greedy_never_makes_fewer_pieces(intervals in intervals()) {
        prop_assert!(pieces::<OptimalPla>(&intervals) <= pieces::<GreedyPlr>(&intervals));
    }

    #[test]
    fn pages_rise_with_offsets(line in line(), a in any::<u64>(), b in any::<u64>(), pages in 1..=16u8) {
        let (a, b) = (a.min(b), a.max(b));
        prop_assert!(line.page(a, pages) <= line.page(b, pages) && line.page(b, pages) < pages);
    }

    #[test]
    fn the_first_offset_of_a_page_is_where_it_begins(line in line(), page in 0..16u8, pages in 1..=16u8) {
        match line.first_offset(page, pages) {
            Some(first) => {
                prop_assert!(line.page(first, pages) >= page);
                prop_assert!(first == 0 || line.page(first - 1, pages) < page);
            }
            None => prop_assert!(line.page(u64::MAX, pages) < page),
        }
    }

    #[test]
    fn a_fence_divides_keys_as_their_digests_do(
        prefix in key(), keys in vec(key(), 1..20), digest in any::<u64>(), drop in 0..64u32,
    ) {
        let whole: Vec<Vec<u8>> = keys.iter().map(|key| [&prefix[..], key].concat()).collect();
        let mut digests: Vec<u64> = whole.iter().map(|key| super::digest(key, prefix.len())).collect();
        digests.extend([0, 1, u64::MAX, digest, digest >> drop << drop]);
        for digest in digests {
            let fence = fence(&prefix, digest);
            for key in &whole {
                prop_assert_eq!(super::digest(key, prefix.len()) >= digest, *key >= fence, "{:?} at {:?}", key, fence);
            }
        }
    }
}

#[test]
fn lines_that_would_not_keep_the_order_are_none() {
    for (slope, intercept) in
        [(-1.0, 0.0), (f32::NAN, 0.0), (f32::INFINITY, 0.0), (1.0, f32::NAN), (1.0, f32::NEG_INFINITY)]
    {
        assert_eq!(Line::new(slope, intercept), None);
    }
}

#[test]
fn the_greatest_coordinates_are_exact() {
    // Two offsets differ in their last bit only: the line must tell them apart.
    let mut fitter = OptimalPla::default();
    assert!(fitter.push(1, u64::MAX - 2, u64::MAX - 2) && fitter.push(2, u64::MAX - 1, u64::MAX - 1));
    assert!(!fitter.push(3, u64::MAX - 1, u64::MAX - 1));
    assert!(fitter.push(3, u64::MAX, u64::MAX));
}
