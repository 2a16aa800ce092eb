use super::*;

#[test]
fn random_changes_match_the_model() {
    for (seed, keys) in [(1, Keys::Numbers), (2, Keys::Paths), (3, Keys::Long)] {
        let mut fixture = Fixture::new(seed);
        for step in 0..400 {
            let grow = step < 250;
            let (removed, inserted) =
                (fixture.random.random_range(0..6), fixture.random.random_range(0..if grow { 16 } else { 4 }));
            fixture.reorganise(keys, removed, inserted);
            let attached = fixture.random.random_range(0..4);
            fixture.attach(keys, attached);
            if step % 20 == 0 {
                fixture.check(keys);
            }
        }
        fixture.check(keys);
    }
}

#[test]
fn an_index_shrinks_to_one_node_again() {
    let mut fixture = Fixture::new(4);
    for keys in [Keys::Paths, Keys::Long] {
        fixture.scatter(keys, 4000);
        assert!(fixture.index.depth() > 1, "{} levels", fixture.index.depth());
        while fixture.model.len() > 1 {
            let remove = fixture.model.keys().skip(1).step_by(3).take(150).cloned().collect();
            fixture.apply(IndexEdit { remove, ..IndexEdit::default() });
            let (segments, nodes) = (fixture.index.segments(), fixture.index.nodes());
            assert!(nodes <= 10 + segments, "{nodes} nodes for {segments} segments");
        }
        fixture.check(keys);
        assert_eq!((fixture.index.depth(), fixture.index.nodes()), (1, 1));
    }
}

#[test]
fn a_whole_index_is_replaced_at_once() {
    let mut fixture = Fixture::new(5);
    fixture.scatter(Keys::Numbers, 3000);
    let remove = fixture.model.keys().cloned().collect();
    let insert = vec![(vec![], fixture.segment()), (b"m".to_vec(), fixture.segment())];
    fixture.apply(IndexEdit { remove, insert, attach: vec![] });
    fixture.check(Keys::Numbers);
    assert_eq!(fixture.index.nodes(), 1);
}

#[test]
fn old_snapshots_stay_as_they_were() {
    let mut fixture = Fixture::new(6);
    let mut kept = Vec::new();
    for _ in 0..20 {
        fixture.reorganise(Keys::Numbers, 5, 60);
        kept.push((fixture.index.snapshot(), fixture.model.clone()));
    }
    fixture.check(Keys::Numbers);
    for (snapshot, model) in kept {
        check_equal(&snapshot, &model);
    }
}

#[test]
fn readers_see_whole_changes_only() {
    let mut fixture = Fixture::new(7);
    fixture.scatter(Keys::Numbers, 2000);
    let done = std::sync::atomic::AtomicBool::new(false);
    let keys: Vec<_> = fixture.model.keys().skip(1).step_by(7).cloned().collect();
    let ordering = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let index = &fixture.index;
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(ordering) {
                    // Every edit gives all these keys the same segment.
                    let snapshot = index.snapshot();
                    let pages: Vec<_> = keys.iter().map(|key| snapshot.lookup(key).page).collect();
                    assert!(
                        snapshot.get(&keys[0]).unwrap().page < 10_000 || pages.iter().all(|page| *page == pages[0])
                    );
                }
            });
        }
        for page in 10_000..10_200 {
            let insert = keys.iter().map(|key| (key.clone(), Segment::new(page))).collect();
            let prepared = index.prepare(&IndexEdit { remove: keys.clone(), insert, attach: vec![] }).unwrap();
            index.install(prepared);
        }
        done.store(true, ordering);
    });
}

#[test]
fn a_change_that_does_not_fit_is_refused() {
    let mut fixture = Fixture::new(8);
    fixture.scatter(Keys::Numbers, 300);
    let there = fixture.model.keys().nth(7).unwrap().clone();
    let (absent, segment) = (b"absent".to_vec(), Segment::new(1));
    let change = |remove: &[&Vec<u8>], insert: &[&Vec<u8>]| IndexEdit {
        remove: remove.iter().map(|key| key.to_vec()).collect(),
        insert: insert.iter().map(|key| (key.to_vec(), segment.clone())).collect(),
        attach: vec![],
    };
    let refused = [
        change(&[&absent], &[]),
        change(&[&there, &there], &[]),
        change(&[], &[&there]),
        change(&[&there], &[&there, &there]),
        change(&[], &[&absent, &absent]),
        change(&[&vec![]], &[&absent]),
    ];
    for change in refused {
        assert!(fixture.index.prepare(&change).is_err(), "{change:?}");
    }
    assert_eq!(fixture.index.prepare(&IndexEdit::default()).unwrap().replaced.len(), 0);
    fixture.check(Keys::Numbers);
}

#[test]
#[should_panic(expected = "between prepare and install")]
fn a_stale_change_is_not_installed() {
    let fixture = Fixture::new(9);
    let change = |key: &[u8]| IndexEdit { insert: vec![(key.to_vec(), Segment::new(5))], ..IndexEdit::default() };
    let (first, second) =
        (fixture.index.prepare(&change(b"a")).unwrap(), fixture.index.prepare(&change(b"b")).unwrap());
    fixture.index.install(first);
    fixture.index.install(second);
}

#[test]
fn a_segment_costs_at_most_32_bytes() {
    let mut fixture = Fixture::new(10);
    let numbers: std::collections::BTreeSet<u64> = (0..30_000).map(|_| fixture.random.random()).collect();
    let mut shuffled: Vec<u64> = numbers.into_iter().collect();
    rand::seq::SliceRandom::shuffle(&mut shuffled[..], &mut fixture.random);
    for (i, number) in shuffled.into_iter().enumerate() {
        let insert = vec![(number.to_be_bytes().to_vec(), Segment::new(i as u32 + 1))];
        fixture.index.install(fixture.index.prepare(&IndexEdit { insert, ..IndexEdit::default() }).unwrap());
    }
    let bytes = fixture.index.bytes() as f64 / fixture.index.segments() as f64;
    println!("random inserts: {bytes:.1} bytes a segment, depth {}", fixture.index.depth());
    assert!(bytes <= 32.0, "{bytes:.1} bytes a segment");
}

#[test]
fn appending_fills_the_nodes() {
    for chunk in [1, 40, 5000] {
        let fixture = Fixture::new(11);
        let keys: Vec<u32> = (1..=20_000).collect();
        for part in keys.chunks(chunk) {
            let insert = part.iter().map(|key| (key.to_be_bytes().to_vec(), Segment::new(*key))).collect();
            fixture.index.install(fixture.index.prepare(&IndexEdit { insert, ..IndexEdit::default() }).unwrap());
        }
        let bytes = fixture.index.bytes() as f64 / 20_001.0;
        println!("appended by {chunk}: {bytes:.1} bytes a segment");
        assert!(bytes < 22.0, "appended by {chunk}: {bytes:.1} bytes a segment");
    }
}

#[test]
fn all_memory_is_accounted_for_and_comes_back() {
    let mut fixture = Fixture::new(12);
    fixture.scatter(Keys::Paths, 3000);
    let leased = |fixture: &Fixture| fixture.memory.usage().iter().find(|(name, _)| *name == "page index").unwrap().1;
    let pages = usize::try_from(fixture.index.nodes()).unwrap() * 4096;
    assert_eq!(leased(&fixture), pages);
    assert!((pages..pages + pages / 20).contains(&fixture.index.bytes()), "{} for {pages}", fixture.index.bytes());
    let snapshot = fixture.index.snapshot();
    let remove = fixture.model.keys().skip(1).cloned().collect();
    fixture.apply(IndexEdit { remove, ..IndexEdit::default() });
    assert_eq!(leased(&fixture), pages + 4096);
    drop(snapshot);
    assert_eq!(leased(&fixture), 4096);
}

#[test]
fn want_of_memory_changes_nothing() {
    let memory = Memory::new(1 << 20);
    let index = Index::create(&memory, Segment::new(1)).unwrap();
    let insert = (0..100_000_u32).map(|key| (key.to_be_bytes().to_vec(), Segment::new(2))).collect();
    assert!(index.prepare(&IndexEdit { insert, ..IndexEdit::default() }).is_err());
    assert_eq!((index.nodes(), index.snapshot().ascend(&[]).count()), (1, 1));
    assert!(index.bytes() < 2 * 4096);
}
