//! Which records stay when the cache is too small for all.

use super::*;

fn key(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

#[test]
fn dirty_records_stay_whatever_is_read() {
    let (_memory, cache) = cache(4);
    for n in 0..4000 {
        assert!(put(&cache, &key(n), Some(&[1; 100]), n as Seq));
    }
    for n in 4000..80_000 {
        read(&cache, &key(n), &[2; 100]);
    }
    assert!(cache.counts().evictions > 30_000);
    assert!((0..4000).all(|n| has(&cache, &key(n))));
    assert_eq!(write_out(&cache), 4000);
    for n in 80_000..160_000 {
        read(&cache, &key(n), &[2; 100]);
    }
    assert!((0..4000).filter(|n| has(&cache, &key(*n))).count() < 400, "clean ones go");
    check::check(&cache);
}

#[test]
fn writes_find_room_until_all_is_dirty_and_again_after_a_write_out() {
    let (_memory, cache) = cache(4);
    (0..40_000).for_each(|n| {
        read(&cache, &key(n), &[2; 100]);
    });
    let mut written = 40_000;
    while put(&cache, &key(written), Some(&[1; 100]), 1) {
        written += 1;
    }
    let capacity = cache.capacity_bytes();
    let dirty = cache.dirty_bytes();
    assert!(dirty > capacity / 10 * 9, "{dirty} of {capacity} bytes are dirty");
    assert!(!put(&cache, &key(written), Some(&[1; 100]), 1));
    write_out(&cache);
    assert_eq!(cache.dirty_bytes(), 0);
    assert!(put(&cache, &key(written), Some(&[1; 100]), 1));
    check::check(&cache);
}

/// How many of these numbers are cached.
fn kept(cache: &Cache, numbers: impl Iterator<Item = usize>) -> usize {
    numbers.filter(|n| has(cache, &key(*n))).count()
}

/// Reads numbers from `from` on, each once, until so many records are evicted.
fn read_on(cache: &Cache, from: usize, evictions: u64) -> usize {
    let before = cache.counts().evictions;
    let mut n = from;
    while cache.counts().evictions < before + evictions {
        assert!(!read(cache, &key(n), &[2; 100]));
        n += 1;
    }
    n
}

#[test]
fn an_access_keeps_a_record() {
    let (_memory, cache) = cache(4);
    let end = read_on(&cache, 0, 1);
    (0..2000).step_by(2).for_each(|n| {
        read(&cache, &key(n), &[2; 100]);
    });
    read_on(&cache, end, end as u64 / 2);
    let (even, odd) = (kept(&cache, (0..2000).step_by(2)), kept(&cache, (1..2000).step_by(2)));
    assert!(even > 900 && odd < 700, "{even} of the read and {odd} of the other ones are left");
}

#[test]
fn what_is_read_once_flushes_nothing_that_is_read_again() {
    let (_memory, cache) = cache(4);
    let hot = || 0..8000;
    (0..3).for_each(|_| {
        hot().for_each(|n| {
            read(&cache, &key(n), &[2; 100]);
        })
    });
    let end = read_on(&cache, 1_000_000, 200_000);
    assert!(end > 1_200_000);
    let left = kept(&cache, hot());
    assert!(left > 7900, "{left} of 8000 records that were read three times are left after {} others", end - 1_000_000);
    check::check(&cache);
}

#[test]
fn what_is_written_once_flushes_nothing_that_is_read_again() {
    let (_memory, cache) = cache(4);
    let hot = || 0..8000;
    (0..3).for_each(|_| {
        hot().for_each(|n| {
            read(&cache, &key(n), &[2; 100]);
        })
    });
    for n in 1_000_000..1_100_000 {
        assert!(put(&cache, &key(n), Some(&[2; 100]), 1));
        if n % 1000 == 0 {
            write_out(&cache);
        }
    }
    let left = kept(&cache, hot());
    assert!(left > 7900, "{left} of 8000 records that were read three times are left");
    check::check(&cache);
}

#[test]
fn a_key_that_is_missed_twice_is_known() {
    let (_memory, cache) = cache(4);
    let mut end = read_on(&cache, 1_000_000, 1);
    for _ in 0..2 {
        (0..500).for_each(|n| {
            read(&cache, &key(n), &[2; 100]);
        });
        // Enough to evict the records above, and not so many that their keys are forgotten.
        end = read_on(&cache, end, 8000);
    }
    let left = kept(&cache, 0..500);
    assert!(
        left > 400,
        "{left} of 500 records are left that were each read twice, the second time after they had gone"
    );
}

/// Zipf-distributed numbers by inversion over a table of cumulative weights.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(items: usize, theta: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=items).map(|rank| {
            sum += (rank as f64).powf(-theta);
            sum
        });
        let mut cumulative: Vec<f64> = weights.collect();
        cumulative.iter_mut().for_each(|weight| *weight /= sum);
        Zipf { cumulative }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        self.cumulative.partition_point(|weight| *weight < at)
    }
}

#[test]
fn under_skew_the_misses_are_near_the_fewest_possible() {
    let seed = 5;
    let (_memory, cache) = cache(6);
    let items = 120_000;
    let zipf = Zipf::new(items, 0.99);
    let mut random = Random::new(seed);
    let mut misses = 0;
    for round in 0..1_000_000 {
        // Scattered, so that the rank and the key order are unrelated.
        let n = zipf.draw(&mut random) * 7919 % items;
        let hit = read(&cache, &key(n), &[2; 100]);
        misses += usize::from(!hit && round >= 500_000);
    }
    let records = cache.counts().records;
    let measured = misses as f64 / 500_000.0;
    let ideal = 1.0 - zipf.cumulative[records - 1];
    println!(
        "seed {seed}: {records} of {items} records cached, misses {measured:.4}, at best {ideal:.4}, {:.3} times",
        measured / ideal
    );
    assert!(measured <= ideal * 1.35, "misses {measured:.4}, at best {ideal:.4}");
}
