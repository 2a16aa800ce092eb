use ecotone_testkit::sim::Crash;

use super::*;

#[test]
fn a_checkpoint_comes_back() {
    for (seed, keys) in [(20, Keys::Numbers), (21, Keys::Paths), (22, Keys::Long)] {
        let mut fixture = Fixture::new(seed);
        for _ in 0..100 {
            fixture.reorganise(keys, 3, 15);
        }
        let (root, _) = fixture.checkpoint();
        let root = TreeRoot::decode(&root.encode()).unwrap();
        let (index, space) = reopen(&fixture.disk.crash(Crash::DropAll), &root).unwrap();
        check_equal(&index.snapshot(), &fixture.model);
        assert_eq!((index.depth(), index.nodes()), (fixture.index.depth(), fixture.index.nodes()));
        assert_eq!((space.used(), space.total()), (fixture.space.used(), fixture.space.total()));
    }
}

#[test]
fn a_second_checkpoint_writes_what_changed() {
    let mut fixture = Fixture::new(23);
    fixture.scatter(Keys::Numbers, 50_000);
    let (_, first) = fixture.checkpoint();
    assert_eq!(first, fixture.index.nodes());
    assert_eq!(fixture.checkpoint().1, 0);
    fixture.scatter(Keys::Numbers, 1);
    let (root, second) = fixture.checkpoint();
    assert!((1..=8).contains(&second), "{second} of {first} pages");
    check_equal(&reopen(&fixture.disk, &root).unwrap().0.snapshot(), &fixture.model);
}

#[test]
fn no_page_is_lost_or_used_early() {
    let mut fixture = Fixture::new(24);
    fixture.scatter(Keys::Numbers, 2000);
    let (mut durable, _) = fixture.checkpoint();
    let mut durable_model = fixture.model.clone();
    for round in 0..30 {
        for _ in 0..fixture.random.random_range(0..8) {
            fixture.reorganise(Keys::Numbers, 4, 5);
        }
        let (index, space, model) = (fixture.index.clone(), fixture.space.clone(), fixture.model.clone());
        let begun = index.begin_checkpoint(&space);
        fixture.reorganise(Keys::Numbers, 3, 9);
        let root = index.write_checkpoint(begun).unwrap();
        fixture.reorganise(Keys::Numbers, 9, 3);
        let (before, _) = reopen(&fixture.disk, &durable).unwrap();
        check_equal(&before.snapshot(), &durable_model);
        if round % 3 > 0 {
            // Otherwise the manifest write failed, and the old root stays in force.
            (durable, durable_model) = (root, model);
            fixture.space.checkpoint_is_durable();
        }
        let (now, _) = reopen(&fixture.disk.crash(Crash::DropAll), &durable).unwrap();
        check_equal(&now.snapshot(), &durable_model);
    }
    fixture.checkpoint();
    fixture.space.checkpoint_is_durable();
    fixture.space.release(fixture.tail);
    let segments: usize = fixture.model.values().map(|segment| segment.all_pages().count()).sum();
    assert_eq!(u64::from(fixture.space.used()), 1 + segments as u64 + fixture.index.nodes());
}

#[test]
fn a_checkpoint_does_not_use_pages_that_it_still_names() {
    let mut fixture = Fixture::new(30);
    fixture.scatter(Keys::Numbers, 60);
    let (index, space, model) = (fixture.index.clone(), fixture.space.clone(), fixture.model.clone());
    let begun = index.begin_checkpoint(&space);
    let remove = fixture.model.keys().skip(1).step_by(2).cloned().collect();
    fixture.apply(IndexEdit { remove, ..IndexEdit::default() });
    let root = index.write_checkpoint(begun).unwrap();
    check_equal(&reopen(&fixture.disk, &root).unwrap().0.snapshot(), &model);
    fixture.checkpoint();
    space.checkpoint_is_durable();
    space.release(fixture.tail);
    let segments: usize = fixture.model.values().map(|segment| segment.all_pages().count()).sum();
    assert_eq!(space.used() as usize, 1 + segments + 1, "what was held back is free later");
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let mut fixture = Fixture::new(25);
    fixture.scatter(Keys::Numbers, 20_000);
    fixture.disk.space_limit(fixture.disk.space_used());
    let used = fixture.space.used();
    fixture.space.allocate((fixture.space.total() - used) as usize).unwrap();
    let error = fixture.index.write_checkpoint(fixture.index.begin_checkpoint(&fixture.space)).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    fixture.disk.space_limit(u64::MAX);
    let (root, written) = fixture.checkpoint();
    assert_eq!(written, fixture.index.nodes());
    check_equal(&reopen(&fixture.disk, &root).unwrap().0.snapshot(), &fixture.model);
}

#[test]
fn a_failed_write_or_sync_poisons() {
    let scattered = || {
        let mut fixture = Fixture::new(26);
        fixture.scatter(Keys::Numbers, 10_000);
        let root = fixture.checkpoint().0;
        fixture.scatter(Keys::Numbers, 10_000);
        (fixture, root)
    };
    let mut fixture = scattered().0;
    let (ios, writes) = (fixture.disk.io_index(), fixture.disk.counters().writes);
    fixture.checkpoint();
    let (ios, writes) = (fixture.disk.io_index() - ios, fixture.disk.counters().writes - writes);
    assert!((4..fixture.index.nodes()).contains(&writes), "{writes} requests for {} pages", fixture.index.nodes());
    // The last one is the sync, and the writes are right before it.
    let sync = ios - 1;
    for ahead in [sync - writes, sync - writes + 3, sync - 1, sync] {
        let (mut fixture, root) = scattered();
        fixture.disk.fail_at(fixture.disk.io_index() + ahead, std::io::ErrorKind::Other);
        let checkpoint = || fixture.index.write_checkpoint(fixture.index.begin_checkpoint(&fixture.space));
        assert!(checkpoint().is_err());
        let again = checkpoint().unwrap_err();
        assert!(matches!(again, ecotone_substrate::Error::Poisoned { .. }), "{again}");
        fixture.check(Keys::Numbers);
        reopen(&fixture.disk.crash(Crash::Random(ahead)), &root).unwrap();
    }
}
