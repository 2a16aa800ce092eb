//! What stays when there is not room for all.

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
    assert_eq!(write_out(&cache, 1), 4000);
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
    assert!(!put(&cache, &key(0), None, 1));
    write_out(&cache, 1);
    assert_eq!(cache.dirty_bytes(), 0);
    assert!(put(&cache, &key(0), None, 1));
    check::check(&cache);
}

fn admit(cache: &Cache, number: usize, priority: u8) {
    let Found::Missing(ticket) = cache.get(0, &key(number)) else { panic!("{number} is there already") };
    assert!(cache.admit_clean(0, &key(number), &[2; 100], &ticket, priority));
}

#[test]
fn low_priority_goes_first() {
    let (_memory, cache) = cache(4);
    (0..2000).for_each(|n| admit(&cache, n, if n % 2 == 0 { 4 } else { 1 }));
    let mut n = 2000;
    while cache.counts().evictions < 1000 {
        admit(&cache, n, 4);
        n += 1;
    }
    let kept = |odd: usize| (0..2000).filter(|n| n % 2 == odd && has(&cache, &key(*n))).count();
    assert!(kept(0) > 800 && kept(1) < 200, "{} of the higher and {} of the lower ones are left", kept(0), kept(1));
}

#[test]
fn an_access_keeps_a_record() {
    let (_memory, cache) = cache(4);
    (0..2000).for_each(|n| admit(&cache, n, 0));
    (0..2000).step_by(2).for_each(|n| assert!(read(&cache, &key(n), &[2; 100])));
    let mut n = 2000;
    while cache.counts().evictions < 1000 {
        admit(&cache, n, 1);
        n += 1;
    }
    let kept = |odd: usize| (0..2000).filter(|n| n % 2 == odd && has(&cache, &key(*n))).count();
    assert!(kept(0) > 800 && kept(1) < 200, "{} of the read and {} of the other ones are left", kept(0), kept(1));
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
        // Scattered, so that rank and order of keys have nothing to do with each other.
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
