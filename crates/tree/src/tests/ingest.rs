//! Ingestion of record streams, against models.

use std::io::ErrorKind;

use ecotone_engine::contract::Engine;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::fixture::{Fixture, Model, Records, over};
use crate::{ForecastKind, TreeOptions};

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes(), &[b'k'; 40][..number as usize % 40]].concat()
}

/// Records over all keys or over a few adjacent ones, many or few.
fn records(random: &mut SmallRng, keys: u32) -> Records {
    let (first, width) = if random.random() { (0, keys) } else { (random.random_range(0..keys), keys / 50 + 1) };
    let count = if random.random() { width / 2 } else { width / 40 + 1 };
    let tombstones = [0.1, 0.9][usize::from(random.random_bool(0.2))];
    let record = |_| {
        let key = key(first + random.random_range(0..width));
        (key, random.random_bool(1.0 - tombstones).then(|| vec![random.random(); random.random_range(0..300)]))
    };
    (0..count).map(record).collect()
}

fn options(random: &mut SmallRng) -> TreeOptions {
    TreeOptions {
        segment_pages: [1, 4, 16][random.random_range(0..3)],
        forecast: [ForecastKind::Off, ForecastKind::Auto][random.random_range(0..2)],
        ..TreeOptions::default()
    }
}

#[test]
fn a_stream_that_was_ingested_is_over_what_there_was() {
    let (mut in_place, mut fresh) = (0, 0);
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (fixture, mut model) = (Fixture::new(seed, options(&mut random)), Model::new());
        let keys = [300, 4000, 12_000][seed as usize % 3];
        for _ in 0..10 {
            let records = records(&mut random, keys);
            assert_eq!(fixture.ingest(&records).unwrap(), records.len() as u64);
            over(&mut model, &records);
            records.keys().for_each(|key| assert_eq!(fixture.find(key).as_ref(), model.get(key), "seed {seed}"));
            if random.random_bool(0.2) {
                fixture.tree.reorganiser.reorganise_when_idle().unwrap();
            }
        }
        fixture.expect(&model);
        in_place += fixture.tree.write_out.written.get();
        fresh += fixture.tree.reorganiser.rebuilt.get();
    }
    assert!(in_place > 100 && fresh > 100, "{in_place} and {fresh}");
}

/// More pages than a round has, and more bytes than a chunk.
#[test]
fn a_long_stream_is_ingested_in_chunks() {
    let (fixture, mut model) = (Fixture::new(1, TreeOptions::default()), Model::new());
    for round in 0..3_u8 {
        let records: Records = (0..30_000).map(|number| (key(number), Some(vec![round; 60]))).collect();
        assert_eq!(fixture.ingest(&records).unwrap(), 30_000);
        over(&mut model, &records);
    }
    fixture.expect(&model);
    let gone: Records = model.keys().map(|key| (key.clone(), None)).collect();
    fixture.ingest(&gone).unwrap();
    fixture.expect(&Model::new());
}

#[test]
fn a_stream_that_ends_with_an_error_says_so() {
    let fixture = Fixture::new(1, TreeOptions::default());
    let mut records = (0..2).map(|number| match number {
        0 => Ok((key(1), Some(vec![1]))),
        _ => Err(ecotone_substrate::Error::Invalid("the source is gone".into())),
    });
    assert!(fixture.tree.ingest(&mut records, true).unwrap_err().to_string().contains("the source is gone"));
}

/// Fails at each I/O in turn.
#[test]
fn an_absorption_that_fails_leaves_of_each_key_what_was_or_what_came() {
    let absorb = |failure: Option<u64>| {
        let mut random = SmallRng::seed_from_u64(3);
        let (fixture, mut before) =
            (Fixture::new(3, TreeOptions { segment_pages: 4, ..TreeOptions::default() }), Model::new());
        let first: Records = (0..1500).map(|number| (key(number), Some(vec![1; 100]))).collect();
        fixture.ingest(&first).unwrap();
        over(&mut before, &first);
        // All keys of some segments, and a few keys of the others.
        let some = (0..300).chain((300..1500).step_by(90));
        let second: Records = some.map(|number| (key(number), random.random_bool(0.7).then(|| vec![2; 120]))).collect();
        let mut after = before.clone();
        over(&mut after, &second);
        let start = fixture.disk.io_index();
        failure.into_iter().for_each(|ahead| fixture.disk.fail_at(start + ahead, ErrorKind::Other));
        let ingested = fixture.ingest(&second);
        assert_eq!(ingested.is_err(), failure.is_some(), "{failure:?}");
        let count = fixture.disk.io_index() - start;
        for key in (0..1500).map(key) {
            let found = fixture.find(&key);
            assert!([&before, &after].map(|model| model.get(&key)).contains(&found.as_ref()), "{failure:?}: {key:?}");
            assert!(failure.is_some() || found.as_ref() == after.get(&key));
        }
        count
    };
    let all = absorb(None);
    assert!(all > 10, "{all}");
    (0..all).for_each(|failure| _ = absorb(Some(failure)));
}

/// Records that fit into no page, one for each segment, too few for the segments to be rebuilt.
#[test]
fn what_has_no_memory_leaves_no_page_that_nobody_names() {
    let (fixture, mut model) = (Fixture::new(1, TreeOptions::default()), Model::new());
    let before: Records = (0..6000).map(|number| (key(number), Some(vec![1; 100]))).collect();
    fixture.ingest(&before).unwrap();
    over(&mut model, &before);
    let added: Records =
        fixture.fences().iter().skip(1).map(|lower| ([&lower[..], b"+"].concat(), Some(vec![2; 1500]))).collect();
    let mut failures = 0;
    for spare in 0.. {
        let taken = fixture.leave_memory(spare);
        let ingested = fixture.ingest(&added);
        drop(taken);
        if ingested.is_ok() {
            break;
        }
        failures += usize::from(ingested.is_err_and(|error| error.is_shortage()));
    }
    over(&mut model, &added);
    assert!(failures > 3, "{failures}");
    fixture.expect(&model);
}

/// Two pages of each segment need an overflow page each, and the disk is full for a moment. If only one page got its
/// overflow page, the segment is rebuilt, with that page's current content.
#[test]
fn what_finds_a_full_disk_for_a_moment_is_ingested_nevertheless() {
    /// I/Os that find a full disk: extending a file is tried twice, and once more each time after the log was synced.
    const FULL: [u64; 4] = [0, 1, 2, 3];
    // The disk is full from this I/O on. Returns whether the ingestion came so far, and whether it failed.
    let absorb = |full: u64, spare: usize| {
        let (fixture, mut model) = (Fixture::new(1, TreeOptions::default()), Model::new());
        let before: Records = (0..2000).map(|number| (key(number), Some(vec![1; 100]))).collect();
        fixture.ingest(&before).unwrap();
        over(&mut model, &before);
        let behind = |key: &[u8]| ([key, b"+"].concat(), Some(vec![2; 1500]));
        let of_segment =
            |lower: Vec<u8>| model.range(lower..).step_by(80).take(2).map(|(key, _)| behind(key)).collect::<Vec<_>>();
        let added: Records = fixture.fences().into_iter().flat_map(of_segment).collect();
        fixture.free_all();
        let space = &fixture.tree.store.space;
        let taken = space.allocate((space.total() - space.used()) as usize - spare).unwrap();
        let full = fixture.disk.io_index() + full;
        FULL.into_iter().for_each(|behind| fixture.disk.fail_at(full + behind, ErrorKind::StorageFull));
        let ingested = fixture.ingest(&added);
        let is_reached = fixture.disk.io_index() > full;
        space.free_now(&taken).unwrap();
        while fixture.disk.io_index() <= full + FULL[3] {
            _ = fixture.tree.verify();
        }
        if ingested.is_ok() {
            over(&mut model, &added);
            fixture.expect(&model);
        }
        (is_reached, ingested.is_err())
    };
    let mut ingested = 0;
    for spare in 0..6 {
        let all = (0..).map(|full| absorb(full, spare)).take_while(|(is_reached, _)| *is_reached);
        ingested += all.filter(|(_, is_failed)| !is_failed).count();
    }
    assert!(ingested > 3, "{ingested}");
}
