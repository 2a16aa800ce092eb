use ecotone_testkit::sim::Crash;

use super::*;

#[test]
fn a_checkpoint_comes_back() {
    for (seed, keys) in [(20, Keys::Numbers), (21, Keys::Paths), (22, Keys::Long)] {
        let mut world = World::new(seed);
        for _ in 0..100 {
            world.reorganise(keys, 3, 15);
        }
        let (root, _) = world.checkpoint();
        let root = TreeRoot::decode(&root.encode()).unwrap();
        let (index, space) = reopen(&world.disk.crash(Crash::DropAll), &root).unwrap();
        check_equal(&index.snapshot(), &world.model);
        assert_eq!((index.depth(), index.nodes()), (world.index.depth(), world.index.nodes()));
        assert_eq!((space.used(), space.total()), (world.space.used(), world.space.total()));
    }
}

#[test]
fn a_second_checkpoint_writes_what_changed() {
    let mut world = World::new(23);
    world.scatter(Keys::Numbers, 50_000);
    let (_, first) = world.checkpoint();
    assert_eq!(first, world.index.nodes());
    assert_eq!(world.checkpoint().1, 0);
    world.scatter(Keys::Numbers, 1);
    let (root, second) = world.checkpoint();
    assert!((1..=8).contains(&second), "{second} of {first} pages");
    check_equal(&reopen(&world.disk, &root).unwrap().0.snapshot(), &world.model);
}

#[test]
fn no_page_is_lost_or_used_early() {
    let mut world = World::new(24);
    world.scatter(Keys::Numbers, 2000);
    let (mut durable, _) = world.checkpoint();
    let mut durable_model = world.model.clone();
    for round in 0..30 {
        for _ in 0..world.random.random_range(0..8) {
            world.reorganise(Keys::Numbers, 4, 5);
        }
        let (index, space, model) = (world.index.clone(), world.space.clone(), world.model.clone());
        let begun = index.begin_checkpoint(&space);
        world.reorganise(Keys::Numbers, 3, 9);
        let root = index.write_checkpoint(begun).unwrap();
        world.reorganise(Keys::Numbers, 9, 3);
        let (before, _) = reopen(&world.disk, &durable).unwrap();
        check_equal(&before.snapshot(), &durable_model);
        if round % 3 > 0 {
            // Otherwise the manifest could not be stored, and the old root stays in force.
            (durable, durable_model) = (root, model);
            world.space.checkpoint_is_durable();
        }
        let (now, _) = reopen(&world.disk.crash(Crash::DropAll), &durable).unwrap();
        check_equal(&now.snapshot(), &durable_model);
    }
    world.checkpoint();
    world.space.checkpoint_is_durable();
    world.space.release(world.tail);
    let segments: usize = world.model.values().map(|segment| segment.all_pages().count()).sum();
    assert_eq!(u64::from(world.space.used()), 1 + segments as u64 + world.index.nodes());
}

#[test]
fn a_checkpoint_does_not_use_pages_that_it_still_names() {
    let mut world = World::new(30);
    world.scatter(Keys::Numbers, 60);
    let (index, space, model) = (world.index.clone(), world.space.clone(), world.model.clone());
    let begun = index.begin_checkpoint(&space);
    let remove = world.model.keys().skip(1).step_by(2).cloned().collect();
    world.apply(Change { remove, ..Change::default() });
    let root = index.write_checkpoint(begun).unwrap();
    check_equal(&reopen(&world.disk, &root).unwrap().0.snapshot(), &model);
    world.checkpoint();
    space.checkpoint_is_durable();
    space.release(world.tail);
    let segments: usize = world.model.values().map(|segment| segment.all_pages().count()).sum();
    assert_eq!(space.used() as usize, 1 + segments + 1, "what was held back is free later");
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let mut world = World::new(25);
    world.scatter(Keys::Numbers, 20_000);
    world.disk.space_limit(world.disk.space_used());
    let used = world.space.used();
    world.space.allocate((world.space.total() - used) as usize).unwrap();
    let error = world.index.write_checkpoint(world.index.begin_checkpoint(&world.space)).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    world.disk.space_limit(u64::MAX);
    let (root, written) = world.checkpoint();
    assert_eq!(written, world.index.nodes());
    check_equal(&reopen(&world.disk, &root).unwrap().0.snapshot(), &world.model);
}

#[test]
fn a_failed_write_or_sync_poisons() {
    let scattered = || {
        let mut world = World::new(26);
        world.scatter(Keys::Numbers, 10_000);
        let root = world.checkpoint().0;
        world.scatter(Keys::Numbers, 10_000);
        (world, root)
    };
    let mut world = scattered().0;
    let (ios, writes) = (world.disk.io_index(), world.disk.counters().writes);
    world.checkpoint();
    let (ios, writes) = (world.disk.io_index() - ios, world.disk.counters().writes - writes);
    assert!((4..world.index.nodes()).contains(&writes), "{writes} requests for {} pages", world.index.nodes());
    // The last one is the sync, and the writes are right before it.
    let sync = ios - 1;
    for ahead in [sync - writes, sync - writes + 3, sync - 1, sync] {
        let (mut world, root) = scattered();
        world.disk.fail_at(world.disk.io_index() + ahead, std::io::ErrorKind::Other);
        let checkpoint = || world.index.write_checkpoint(world.index.begin_checkpoint(&world.space));
        assert!(checkpoint().is_err());
        let again = checkpoint().unwrap_err();
        assert!(matches!(again, ecotone_substrate::Error::Poisoned { .. }), "{again}");
        world.check(Keys::Numbers);
        reopen(&world.disk.crash(Crash::Random(ahead)), &root).unwrap();
    }
}
