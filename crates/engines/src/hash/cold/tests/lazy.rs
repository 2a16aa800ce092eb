//! Maps that the first search makes: what an opening does not read, what a search reads, who waits, what is wanting and
//! what is damaged.

use std::thread;

use ecotone_substrate::{
    Error,
    limits::PAGE,
    storage::{FileKind, Storage},
};

use super::{maps::World, *};

const KEYS: u32 = 20_000;

/// Four partitions under five deltas.
fn world() -> World {
    let mut world = World::new(1, hash);
    world.compact(6_000, KEYS);
    world.fold(0, true, 0);
    [0, u64::MAX].into_iter().for_each(|hash| world.fold(hash, true, 0));
    assert_eq!(world.runs.partitions().count(), 4);
    (0..5).for_each(|_| world.compact(6_000, KEYS));
    world
}

fn read(world: &World) -> u64 {
    world.disk.counters_of(FileKind::Table).read_bytes
}

fn is_made(partition: &Partition) -> bool {
    let without = partition.base().map_or(0, |base| base.index_bytes());
    partition.index_bytes() > without
}

#[test]
fn an_opening_reads_headers_and_fences_and_a_search_the_tags_of_its_partition() {
    let world = world();
    let before = read(&world);
    let runs = world.opened(&world.environment);
    let all: Vec<Arc<Run>> =
        runs.deltas().runs().cloned().chain(runs.partitions().filter_map(|p| p.base().cloned())).collect();
    let fences: u64 = all.iter().map(|run| run.index_bytes()).sum();
    assert_eq!(read(&world) - before, all.len() as u64 * PAGE as u64 + fences);
    let pages = |run: &Arc<Run>| run.tags_form().pages(run.records());
    let tags: u64 = runs.deltas().runs().map(pages).sum::<u64>() * PAGE as u64;
    for partition in runs.partitions() {
        let (before, hash) = (read(&world), *partition.stretch().hashes().start());
        assert!(!is_made(partition));
        let estimate = partition.delta_records();
        partition.prepare().unwrap();
        let (there, read_now) = (partition.delta_records(), read(&world) - before);
        assert!(
            is_made(partition) && there.abs_diff(estimate) < there / 10,
            "{there} records where {estimate} were expected"
        );
        assert!(read_now > 0 && read_now <= tags / 2 + 5 * 2 * PAGE as u64, "{read_now} bytes of {tags}");
        partition.prepare().unwrap();
        partition.search(hash);
        assert_eq!(read(&world) - before, read_now, "a map is made once");
    }
}

#[test]
fn what_comes_before_the_first_search_is_found_by_it() {
    type Act = fn(&mut World);
    let acts: [Act; 4] = [
        |world| world.compact(3_000, KEYS),
        |world| world.merge(),
        |world| world.fold(0, false, 100),
        |world| world.fold(u64::MAX, true, 0),
    ];
    for first in acts {
        for second in acts {
            let mut world = world();
            world.runs = world.opened(&world.environment);
            first(&mut world);
            second(&mut world);
            // No fold has come to these.
            let [searched, other] = [1 << 62, 1 << 63];
            let is_made = |world: &World, hash| is_made(world.runs.partition(hash));
            assert!(!is_made(&world, searched) && !is_made(&world, other));
            // A map that was made goes on, and none is made before it is needed.
            let before = read(&world);
            world.runs.partition(searched).prepare().unwrap();
            assert!(read(&world) > before);
            world.compact(1_000, KEYS);
            assert!(is_made(&world, searched) && !is_made(&world, other));
            world.check(KEYS);
        }
    }
}

#[test]
fn tags_are_found_where_hashes_are_not_uniform() {
    // All lie in the first half, most of them near its end.
    let crowded = |key: &[u8]| (hash(key) >> 1) | if key[3].is_multiple_of(8) { 0 } else { 7 << 60 };
    let mut world = World::new(1, crowded);
    world.compact(6_000, KEYS);
    [0, 0, 1 << 62, 1 << 62].into_iter().for_each(|hash| world.fold(hash, true, 0));
    (0..3).for_each(|_| world.compact(9_000, KEYS));
    world.reopen();
    world.runs = world.opened(&world.environment);
    world.check(KEYS);
    world.runs.partitions().for_each(|partition| partition.prepare().unwrap());
    let made: u64 = world.runs.partitions().map(|partition| partition.delta_records()).sum();
    assert_eq!(made, world.runs.deltas().runs().map(|run| run.records()).sum::<u64>());
}

#[test]
fn searches_that_come_first_together_make_one_map() {
    let world = world();
    let runs = world.opened(&world.environment);
    let alone = world.opened(&world.environment);
    let before = read(&world);
    alone.partition(0).prepare().unwrap();
    let once = read(&world) - before;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| runs.partition(0).prepare().unwrap());
        }
    });
    assert_eq!(read(&world) - before, 2 * once);
    assert!(is_made(runs.partition(0)));
}

#[test]
fn without_memory_for_a_map_all_deltas_are_asked_and_it_is_made_later() {
    let mut world = world();
    world.runs = world.opened(&world.environment);
    let (memory, mut taken) = (world.environment.memory.clone(), Vec::new());
    let mut frame = frame(&world.environment);
    while let Ok(block) = memory.lease_essential(Component::Other, Size::Slab) {
        taken.push(block);
    }
    while let Ok(block) = memory.lease_essential(Component::Other, Size::Frame) {
        taken.push(block);
    }
    let partition = world.runs.partition(0).clone();
    let find = |frame: &mut storage::Block| {
        for ((hash, key), expected) in
            world.newest.iter().filter(|((hash, _), _)| partition.stretch().has(*hash)).take(300)
        {
            let mut value = Vec::new();
            let found = partition.find(*hash, key, frame, &mut value).unwrap().then_some(value);
            assert_eq!(found.as_ref(), expected.as_ref());
        }
    };
    let before = read(&world);
    find(&mut frame);
    assert!(!is_made(&partition) && read(&world) > before);
    drop(taken);
    // Not every search tries again.
    find(&mut frame);
    assert!(is_made(&partition));
    world.check(KEYS);
}

#[test]
fn damage_in_tags_is_told_by_searches_that_need_them() {
    let world = world();
    let runs = world.opened(&world.environment);
    let delta = runs.deltas().runs().nth(2).unwrap().clone();
    let last = delta.tags_form().pages(delta.records()) - 1;
    let place = delta.tags_at() + last * PAGE as u64 + 77;
    world.disk.flip_bit(delta.name().file(), place, 3);
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
    Runs::check(|| &runs, &world.environment, &hash, failed).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    world.disk.flip_bit(delta.name().file(), place, 3);
    partition.prepare().unwrap();
    assert!(is_made(partition));
}
