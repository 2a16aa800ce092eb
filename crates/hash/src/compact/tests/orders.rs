//! Loom models: all orders of a compaction beside writers and readers of its key, within a number of preemptions
//! (hash-protocol.md, M6).

use ecotone_sys::primitive::loom::{model::Builder, thread};

use super::*;
use crate::tests::fill_up;

const KEY: &[u8] = b"k";

/// Explores the orders of `work` with at most `preemptions` preemptions. It begins with a key whose only record is to
/// be compacted, up to the address that `work` gets.
fn all_orders(preemptions: usize, work: impl Fn(Arc<Fixture>, Address) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let disk = SimStorage::new(1);
        let environment = disk.environment(SEED, 16 << 20);
        let hash = Hash::new(&Domain::new(), &environment.memory, SEED, Sizes { bucket_bits: 0, frames: 2, copies: 0 })
            .unwrap();
        fill_up(&hash);
        let journal = Journal::new(&environment, true);
        let fixture =
            Arc::new(Fixture { disk, environment, hash: Arc::new(hash), journal, limits: CompactionLimits::TINY });
        fixture.set(KEY, b"0");
        let until = fixture.hash.chains.log.close_page();
        fixture.hash.chains.log.freeze(until);
        work(fixture, until);
    });
}

fn spawn(fixture: &Arc<Fixture>, work: impl FnOnce(&Fixture) + 'static) -> thread::JoinHandle<()> {
    let fixture = fixture.clone();
    thread::spawn(move || work(&fixture))
}

fn compact(fixture: &Fixture, until: Address) {
    assert_eq!(fixture.compactor().compact(until).unwrap(), until);
}

/// It fails where BEGIN passes the record before the run is published.
#[test]
fn a_reader_beside_a_compaction_finds_the_record() {
    all_orders(2, |fixture, until| {
        let compacting = spawn(&fixture, move |fixture| compact(fixture, until));
        assert_eq!(fixture.value(KEY).as_deref(), Some(&b"0"[..]));
        compacting.join().unwrap();
        assert_eq!(fixture.value(KEY).as_deref(), Some(&b"0"[..]));
    });
}

/// It fails where the sweep frees the current entry instead of the one that it has read.
#[test]
fn an_upsert_beside_a_compaction_is_the_newest() {
    all_orders(3, |fixture, until| {
        let compacting = spawn(&fixture, move |fixture| compact(fixture, until));
        fixture.set(KEY, b"1");
        assert_eq!(fixture.value(KEY).as_deref(), Some(&b"1"[..]));
        compacting.join().unwrap();
        assert_eq!(fixture.value(KEY).as_deref(), Some(&b"1"[..]));
    });
}

/// It fails where a delete that finds nothing in memory writes nothing.
#[test]
fn a_delete_beside_a_compaction_hides_what_is_copied() {
    all_orders(2, |fixture, until| {
        let compacting = spawn(&fixture, move |fixture| compact(fixture, until));
        fixture.remove(KEY);
        assert_eq!(fixture.value(KEY), None);
        compacting.join().unwrap();
        assert_eq!(fixture.value(KEY), None);
    });
}

/// A third thread reads meanwhile. It fails like the first model.
#[test]
fn a_reader_beside_an_upsert_and_a_compaction_finds_one_of_both() {
    all_orders(2, |fixture, until| {
        let compacting = spawn(&fixture, move |fixture| compact(fixture, until));
        let writing = spawn(&fixture, |fixture| fixture.set(KEY, b"1"));
        let found = fixture.value(KEY).expect("it has a value");
        assert!(found == b"0" || found == b"1", "{found:?}");
        writing.join().unwrap();
        assert_eq!(fixture.value(KEY).as_deref(), Some(&b"1"[..]));
        compacting.join().unwrap();
        assert_eq!(fixture.value(KEY).as_deref(), Some(&b"1"[..]));
    });
}

/// The update uses a search from before the key got its record. It fails where entries are freed before all pins are
/// released that may use the old BEGIN. The compaction starts first, so that two preemptions are enough: of the
/// compaction before it raises BEGIN, and of the update after it has read BEGIN.
#[test]
fn an_update_by_an_old_search_beside_a_compaction_is_refused() {
    all_orders(2, |fixture, _| {
        let seen = fixture.hash.searcher().search(&fixture.hash.chains.key(b"j"), &mut Vec::new()).unwrap();
        assert!(!seen.has_value());
        fixture.set(b"j", b"1");
        let until = fixture.hash.chains.log.close_page();
        fixture.hash.chains.log.freeze(until);
        let updating = spawn(&fixture, move |fixture| {
            let written = fixture.hash.chains.write_if(
                &fixture.hash.chains.key(b"j"),
                &seen,
                Some(b"2"),
                &fixture.hash.chains.domain.pin(),
            );
            assert_eq!(written, Ok(false));
        });
        compact(&fixture, until);
        updating.join().unwrap();
        assert_eq!(fixture.value(b"j").as_deref(), Some(&b"1"[..]));
    });
}
