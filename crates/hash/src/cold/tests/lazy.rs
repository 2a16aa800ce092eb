//! Lazily made maps: what an opening and a search read, which threads wait, and lack of memory and damage.

use std::thread;

use ecotone_substrate::{
    Error,
    limits::PAGE,
    storage::{FileKind, Storage},
};

use super::{maps::Fixture, *};

const KEYS: u32 = 20_000;

/// Four partitions under five deltas.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new(1, hash);
    fixture.compact(6_000, KEYS);
    fixture.merge_into_base(0, true, 0);
    [0, u64::MAX].into_iter().for_each(|hash| fixture.merge_into_base(hash, true, 0));
    assert_eq!(fixture.runs.partitions().count(), 4);
    (0..5).for_each(|_| fixture.compact(6_000, KEYS));
    fixture
}

fn read(fixture: &Fixture) -> u64 {
    fixture.disk.counters_of(FileKind::Table).read_bytes
}

fn is_made(partition: &Partition) -> bool {
    let without = partition.base().map_or(0, |base| base.index_bytes());
    partition.index_bytes() > without
}

#[test]
fn an_opening_reads_headers_and_fences_and_a_search_the_tags_of_its_partition() {
    let fixture = fixture();
    let before = read(&fixture);
    let runs = fixture.opened(&fixture.environment);
    let all: Vec<Arc<Run>> =
        runs.deltas().runs().cloned().chain(runs.partitions().filter_map(|p| p.base().cloned())).collect();
    let fences: u64 = all.iter().map(|run| run.index_bytes()).sum();
    assert_eq!(read(&fixture) - before, all.len() as u64 * PAGE as u64 + fences);
    let pages = |run: &Arc<Run>| run.tags_form().pages(run.records());
    let tags: u64 = runs.deltas().runs().map(pages).sum::<u64>() * PAGE as u64;
    for partition in runs.partitions() {
        let (before, hash) = (read(&fixture), *partition.hash_range().hashes().start());
        assert!(!is_made(partition));
        let estimate = partition.delta_records();
        partition.prepare().unwrap();
        let (there, read_now) = (partition.delta_records(), read(&fixture) - before);
        assert!(
            is_made(partition) && there.abs_diff(estimate) < there / 10,
            "{there} records where {estimate} were expected"
        );
        assert!(read_now > 0 && read_now <= tags / 2 + 5 * 2 * PAGE as u64, "{read_now} bytes of {tags}");
        partition.prepare().unwrap();
        partition.search(hash);
        assert_eq!(read(&fixture) - before, read_now, "a map is made once");
    }
}

#[test]
fn what_comes_before_the_first_search_is_found_by_it() {
    type Act = fn(&mut Fixture);
    let acts: [Act; 4] = [
        |fixture| fixture.compact(3_000, KEYS),
        |fixture| fixture.merge(),
        |fixture| fixture.merge_into_base(0, false, 100),
        |fixture| fixture.merge_into_base(u64::MAX, true, 0),
    ];
    for first in acts {
        for second in acts {
            let mut fixture = fixture();
            fixture.runs = fixture.opened(&fixture.environment);
            first(&mut fixture);
            second(&mut fixture);
            // These partitions were not merged.
            let [searched, other] = [1 << 62, 1 << 63];
            let is_made = |fixture: &Fixture, hash| is_made(fixture.runs.partition(hash));
            assert!(!is_made(&fixture, searched) && !is_made(&fixture, other));
            // A map that was made is reused, and none is made before it is needed.
            let before = read(&fixture);
            fixture.runs.partition(searched).prepare().unwrap();
            assert!(read(&fixture) > before);
            fixture.compact(1_000, KEYS);
            assert!(is_made(&fixture, searched) && !is_made(&fixture, other));
            fixture.check(KEYS);
        }
    }
}

#[test]
fn tags_are_found_where_hashes_are_not_uniform() {
    // All hashes lie in the first half, most of them near its end.
    let crowded = |key: &[u8]| (hash(key) >> 1) | if key[3].is_multiple_of(8) { 0 } else { 7 << 60 };
    let mut fixture = Fixture::new(1, crowded);
    fixture.compact(6_000, KEYS);
    [0, 0, 1 << 62, 1 << 62].into_iter().for_each(|hash| fixture.merge_into_base(hash, true, 0));
    (0..3).for_each(|_| fixture.compact(9_000, KEYS));
    fixture.reopen();
    fixture.runs = fixture.opened(&fixture.environment);
    fixture.check(KEYS);
    fixture.runs.partitions().for_each(|partition| partition.prepare().unwrap());
    let made: u64 = fixture.runs.partitions().map(|partition| partition.delta_records()).sum();
    assert_eq!(made, fixture.runs.deltas().runs().map(|run| run.records()).sum::<u64>());
}

#[test]
fn searches_that_come_first_together_make_one_map() {
    let fixture = fixture();
    let runs = fixture.opened(&fixture.environment);
    let alone = fixture.opened(&fixture.environment);
    let before = read(&fixture);
    alone.partition(0).prepare().unwrap();
    let once = read(&fixture) - before;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| runs.partition(0).prepare().unwrap());
        }
    });
    assert_eq!(read(&fixture) - before, 2 * once);
    assert!(is_made(runs.partition(0)));
}

#[test]
fn without_memory_for_a_map_all_deltas_are_asked_and_it_is_made_later() {
    let mut fixture = fixture();
    fixture.runs = fixture.opened(&fixture.environment);
    let (memory, mut taken) = (fixture.environment.memory.clone(), Vec::new());
    let mut frame = frame(&fixture.environment);
    while let Ok(block) = memory.lease_essential(Component::Other, Size::Slab) {
        taken.push(block);
    }
    while let Ok(block) = memory.lease_essential(Component::Other, Size::Frame) {
        taken.push(block);
    }
    let partition = fixture.runs.partition(0).clone();
    let find = |frame: &mut storage::Block| {
        for ((hash, key), expected) in
            fixture.newest.iter().filter(|((hash, _), _)| partition.hash_range().has(*hash)).take(300)
        {
            let mut value = Vec::new();
            let found = partition.find(*hash, key, frame, &mut value).unwrap().then_some(value);
            assert_eq!(found.as_ref(), expected.as_ref());
        }
    };
    let before = read(&fixture);
    find(&mut frame);
    assert!(!is_made(&partition) && read(&fixture) > before);
    drop(taken);
    // Not every search tries again.
    find(&mut frame);
    assert!(is_made(&partition));
    fixture.check(KEYS);
}

#[test]
fn damage_in_tags_is_told_by_searches_that_need_them() {
    let fixture = fixture();
    let runs = fixture.opened(&fixture.environment);
    let delta = runs.deltas().runs().nth(2).unwrap().clone();
    let last = delta.tags_form().pages(delta.records()) - 1;
    let place = delta.tags_at() + last * PAGE as u64 + 77;
    fixture.disk.flip_bit(delta.name().file(), place, 3);
    let partition = runs.partition(u64::MAX);
    for _ in 0..2 {
        match partition.prepare().unwrap_err() {
            Error::Corruption { file, offset, .. } => {
                assert_eq!(file, delta.name().file().to_string());
                assert!((place - 77..place).contains(&offset), "{offset}");
            }
            error => panic!("{error}"),
        }
    }
    runs.partition(0).prepare().unwrap();
    assert!(is_made(runs.partition(0)) && !is_made(partition));
    let mut problems = Vec::new();
    let failed = &mut |error: Error| {
        problems.push(error.to_string());
        Ok(())
    };
    Runs::check(|| &runs, &fixture.environment, &hash, failed).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    fixture.disk.flip_bit(delta.name().file(), place, 3);
    partition.prepare().unwrap();
    assert!(is_made(partition));
}
