//! Memory of the cold tier, and how often its maps give false positives (hash.md, "Cold tier").

use super::*;

/// Records of a base of 9 MB, one of 256 of 20 million records.
const RECORDS: u64 = 80_000;

/// A base of records of 8 + 100 bytes in blocks of `block` bytes, and deltas with `in_deltas` of them. Returns the
/// partition and the memory that it leased without and with its map.
fn partition(environment: &Environment, block: usize, in_deltas: u64) -> (Partition, [f64; 2]) {
    let base = write(environment, NAME, RunKind::Base(HashRange::ALL), block, &usual(RECORDS, 0)).unwrap().unwrap();
    let partition = Partition::new(HashRange::ALL, Some(Arc::new(base.0)), 0);
    let (base, each) = (leased(environment), in_deltas / 20);
    let (mut deltas, mut tags) = (Deltas::default(), Vec::new());
    for number in 0..20 {
        let (name, from) = (FileIdentity { number: 10 + number, ..NAME }, 4096 * u64::from(1 + number));
        let kind = RunKind::Delta { from, until: from + 4096 };
        let (run, its) =
            write(environment, name, kind, block, &usual(each, each * u64::from(number))).unwrap().unwrap();
        let (more, slot) = deltas.with(Arc::new(run));
        deltas = more;
        tags.push((slot, its));
    }
    let before = leased(environment);
    let tags: Vec<_> = tags.iter().map(|(slot, tags)| (*slot, tags)).collect();
    let partition = partition.with_deltas(&environment.memory, Arc::new(deltas), &tags).unwrap();
    assert_eq!(partition.delta_records(), in_deltas);
    (partition, [base, leased(environment) - before])
}

fn leased(environment: &Environment) -> f64 {
    environment.memory.used(&[Component::ColdIndex]) as f64
}

/// Memory of a delta's fences for each of its records: 60,000, a 32nd of a budget of 220 MiB. All partitions share
/// them.
fn delta_fences(environment: &Environment, block: usize) -> f64 {
    let (before, name) = (leased(environment), FileIdentity { number: 8, ..NAME });
    let _delta = write(environment, name, DELTA, block, &usual(60_000, 0)).unwrap();
    (leased(environment) - before) / 60_000.0
}

/// Deltas hold a quarter of the base on average. With blocks of 1024 bytes it would be 1.01.
#[test]
fn a_cold_key_takes_so_many_bytes_of_memory() {
    for block in [4096, 2048] {
        let environment = environment(&SimStorage::new(1));
        let (partition, [base, map]) = partition(&environment, block, RECORDS / 4);
        let (base, map, deltas) =
            (base / RECORDS as f64, map / RECORDS as f64, delta_fences(&environment, block) / 4.0);
        eprintln!(
            "blocks of {block}, bytes a cold key: base {base}, map {map}, fences of deltas {deltas}, all {}",
            base + map + deltas
        );
        assert!(base + map + deltas <= 0.9, "{base} + {map} + {deltas} bytes a cold key with blocks of {block}");
        drop(partition);
        assert_eq!(leased(&environment), 0.0);
    }
}

/// Without deltas there is no map, and the fences of a base fill their pages but the last.
#[test]
fn a_key_of_a_merged_base_takes_less_than_a_tenth_of_a_byte() {
    let environment = environment(&SimStorage::new(1));
    let base = write(&environment, NAME, RunKind::Base(HashRange::ALL), 4096, &usual(3 * RECORDS, 0)).unwrap().unwrap();
    let bytes = leased(&environment) / base.0.records() as f64;
    assert!(bytes <= 0.07, "{bytes} bytes a key");
}

#[test]
fn a_key_that_is_in_no_delta_is_led_astray_once_in_forty() {
    let environment = environment(&SimStorage::new(1));
    let (partition, _) = partition(&environment, 4096, RECORDS / 2);
    let (mut astray, mut asked) = (0, 0);
    for (hash, _) in usual(100_000, RECORDS / 2).keys() {
        let mut search = partition.search(*hash);
        while let Some((run, _)) = partition.next(&mut search) {
            astray += u64::from(matches!(run.kind(), RunKind::Delta { .. }));
        }
        asked += 1;
    }
    let part = astray as f64 / f64::from(asked);
    eprintln!("{part} reads of deltas for a key that is in none");
    assert!(part <= 0.025, "{part} reads of deltas for a key that is in none");
}
