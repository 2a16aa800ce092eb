//! Runs, compared with a sorted map.

use rand::SeedableRng;

use super::*;

/// Checks that every record of the run is found, that no other key is, and that the full check passes.
fn follows(environment: &Environment, run: &Run, records: &Records, hash_of: &dyn Fn(&[u8]) -> u64) {
    let mut frame = frame(environment);
    for ((hash, key), value) in records {
        assert_eq!(ask(run, *hash, key, &mut frame).unwrap().as_ref(), Some(value));
        let mut longer = key.clone();
        longer.push(0);
        let absent = (hash_of(&longer), longer);
        assert_eq!(ask(run, absent.0, &absent.1, &mut frame).unwrap().as_ref(), records.get(&absent));
    }
    run.check(environment, hash_of).unwrap();
    let tombstones = records.values().filter(|value| value.is_none()).count();
    assert_eq!((run.records(), run.tombstones()), (records.len() as u64, tombstones as u64));
}

/// Writes a run and reads it, as the writer returns it and as it is opened again.
fn round_trip(kind: RunKind, block: usize, records: &Records, hash_of: &dyn Fn(&[u8]) -> u64) {
    let environment = environment(&SimStorage::new(1));
    let (run, tags) = write(&environment, NAME, kind, block, records).unwrap().unwrap();
    follows(&environment, &run, records, hash_of);
    let opened = Run::open(&environment, NAME).unwrap();
    assert_eq!((opened.kind(), opened.blocks(), opened.name()), (kind, run.blocks(), NAME));
    let again = opened.tags(&environment).unwrap();
    let all = |tags: &Tags| tags.of(HashRange::ALL).map(|number| tags.get(number)).collect::<Vec<_>>();
    assert_eq!(all(&tags), all(&again));
    drop(run);
    follows(&environment, &opened, records, hash_of);
}

#[test]
fn records_of_every_size_come_back() {
    for (seed, block, largest) in [(1, 1024, 999), (2, 2048, 1900), (3, 4096, 1900)] {
        let mut random = SmallRng::seed_from_u64(seed);
        let sizes = (2..=largest).map(|size| {
            let (key, value) = sized(&mut random, size, false);
            ((hash(&key), key), value)
        });
        round_trip(DELTA, block, &sizes.collect(), &hash);
    }
}

#[test]
fn runs_of_every_length_come_back() {
    for (seed, count) in (0..).zip([1, 2, 7, 8, 9, 35, 36, 70, 500, 512, 513, 2240, 2241, 14_337, 100_000]) {
        println!("seed {seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let mut records = Records::new();
        while records.len() < count {
            let size = if random.random_bool(0.1) { random.random_range(2..300) } else { 108 };
            let tombstone = random.random_bool(0.1);
            let (key, value) = sized(&mut random, size, tombstone);
            records.insert((hash(&key), key), value);
        }
        round_trip(DELTA, [1024, 2048, 4096][seed as usize % 3], &records, &hash);
    }
}

#[test]
fn a_base_has_what_is_in_its_hash_range() {
    let records = usual(20_000, 0);
    for (bits, number) in [(0, 0), (1, 1), (3, 5), (8, 0), (8, 255)] {
        let hash_range = HashRange::new(bits, number).unwrap();
        let part: Records = records
            .iter()
            .filter(|((hash, _), _)| hash_range.has(*hash))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert!((part.len() as f64 / (20_000 >> bits) as f64 - 1.0).abs() < 0.5);
        round_trip(RunKind::Base(hash_range), 1024, &part, &hash);
    }
    assert!(HashRange::new(9, 0).is_none() && HashRange::new(3, 8).is_none());
}

#[test]
fn keys_of_equal_hashes_are_told_apart_through_many_blocks() {
    for (seed, hashes, count) in [(1, 1, 800), (2, 2, 1_000), (3, 40, 6_000)] {
        let mut random = SmallRng::seed_from_u64(seed);
        let few = move |key: &[u8]| (hash(key) % hashes) << 60 | hash(&[(hash(key) % hashes) as u8]) >> 4;
        let keys = (0..count).map(|_| random.random_range(0..9_000_u32).to_be_bytes().to_vec());
        let records = keys.map(|key| ((few(&key), key.clone()), Some(key.repeat(25)))).collect();
        round_trip(DELTA, 1024, &records, &few);
    }
}

/// Decision 9: one read for a key in the base.
#[test]
fn a_lookup_reads_one_block() {
    let records = usual(60_000, 0);
    for block in [1024, 2048, 4096] {
        let disk = SimStorage::new(1);
        let environment = environment(&disk);
        let (run, _) = write(&environment, NAME, RunKind::Base(HashRange::ALL), block, &records).unwrap().unwrap();
        let (mut frame, before) = (frame(&environment), environment.storage.counters().reads);
        for (hash, key) in records.keys() {
            assert!(ask(&run, *hash, key, &mut frame).unwrap().is_some());
        }
        let reads = (environment.storage.counters().reads - before) as f64 / records.len() as f64;
        assert!((1.0..=1.005).contains(&reads), "{reads} reads a lookup with blocks of {block}");
    }
}

#[test]
fn a_run_of_no_records_leaves_no_file() {
    let disk = SimStorage::new(1);
    let writer = RunWriter::create(&environment(&disk), NAME, DELTA, 1024).unwrap();
    assert!(writer.is_empty() && disk.files().contains_key(&NAME.file()));
    assert!(writer.finish().unwrap().is_none());
    assert!(disk.files().is_empty());
}

/// Hash, key and value.
type Pushed = (u64, &'static [u8], Option<&'static [u8]>);

#[test]
fn the_writer_refuses_what_would_be_lost() {
    let refused = |kind: RunKind, records: &'static [Pushed]| {
        let result = std::panic::catch_unwind(|| {
            let mut writer = RunWriter::create(&environment(&SimStorage::new(1)), NAME, kind, 1024).unwrap();
            records.iter().for_each(|(hash, key, value)| writer.push(*hash, key, *value).unwrap());
        });
        result.is_err()
    };
    let half = RunKind::Base(HashRange::new(1, 1).unwrap());
    assert!(!refused(DELTA, &[(0, b"a", None), (0, b"b", Some(b"")), (1, b"a", Some(b"x")), (u64::MAX, b"a", None)]));
    assert!(!refused(half, &[(1 << 63, b"a", Some(b""))]));
    assert!(
        refused(DELTA, &[(1, b"a", None), (1, b"a", None)]) && refused(DELTA, &[(1, b"a", None), (0, b"b", None)]),
        "out of order"
    );
    assert!(refused(half, &[(1 << 62, b"a", Some(b""))]), "of another partition");
    assert!(refused(half, &[(1 << 63, b"a", None)]), "a tombstone in a base");
    assert!(refused(DELTA, &[(1, b"", None)]) && refused(DELTA, &[(1, &[0; 1025], None)]), "beyond a limit");
    assert!(refused(DELTA, &[(1, &[0; 1000], Some(&[0; 900]))]), "larger than a block of 1024");
}
