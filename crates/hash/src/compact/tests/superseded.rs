//! Reports of superseded versions: after everything was compacted and merged, each was reported once (superseded.md,
//! "Proof").

use std::collections::BTreeMap;

use ecotone_engine::{merge::Merge, superseded::SupersededReports};
use ecotone_substrate::wal::WalOptions;
use ecotone_testkit::{
    engine::context,
    suite::{ReportRecorder, ReportedVersion},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

/// A keyspace with a listener, and the values of its keys. No value is written twice.
struct Reported {
    fixture: Fixture,
    recorder: Arc<ReportRecorder>,
    newest: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Superseded versions, and how often each was reported.
    counts: BTreeMap<(Vec<u8>, Vec<u8>), u32>,
    written: u32,
}

impl Reported {
    fn new(seed: u64, compaction: Compaction) -> Reported {
        let (mut fixture, recorder) = (Fixture::new(seed, true), Arc::new(ReportRecorder::default()));
        fixture.limits.compaction = compaction;
        let bytes = 64 << 10;
        let options =
            WalOptions { first_bytes: bytes, segment_bytes: bytes, limit_bytes: 1 << 20, longest_bytes: 1 << 20 };
        let mut context = context(&fixture.environment, options, false, seed);
        context.shared.superseded = Some(recorder.clone());
        let hash = Arc::get_mut(&mut fixture.hash).expect("nobody else has it yet");
        hash.chains.reports = SupersededReports::new(&context, true);
        Reported { fixture, recorder, newest: BTreeMap::new(), counts: BTreeMap::new(), written: 0 }
    }

    fn write(&mut self, random: &mut SmallRng) {
        let key = random.random_range(0..200u32).to_be_bytes();
        self.written += 1;
        let mut value = self.written.to_be_bytes().to_vec();
        value.resize(4 + random.random_range(0..40), 7);
        let old = match random.random_range(0..6) {
            0 => {
                self.fixture.remove(&key);
                self.newest.remove(&key[..])
            }
            1 => {
                self.fixture.hash.merge(&key, Merge::Append(&value)).unwrap();
                let after = [self.newest.get(&key[..]).map_or(&[][..], |old| old), &value].concat();
                let grows = after.len() < 1000;
                if !grows {
                    self.fixture.set(&key, &value);
                    self.counts.insert((key.to_vec(), after), 0);
                    self.newest.insert(key.to_vec(), value)
                } else {
                    self.newest.insert(key.to_vec(), after)
                }
            }
            _ => {
                self.fixture.set(&key, &value);
                self.newest.insert(key.to_vec(), value)
            }
        };
        self.counts.extend(old.map(|old| ((key.to_vec(), old), 0)));
        self.listen();
    }

    /// Makes all records read-only. Returns their region.
    fn freeze(&self) -> Region {
        let log = &self.fixture.hash.chains.log;
        let (from, until) = (log.bounds().begin(), log.close_page());
        log.freeze(until);
        Region { from, until }
    }

    /// Writes values of one key, of which only the first is appended.
    fn set(&self, values: &[&str]) {
        values.iter().for_each(|value| self.fixture.set(b"key", value.as_bytes()));
    }

    /// The values of that key that were reported since the last call, sorted.
    fn reported(&self) -> Vec<String> {
        let reports = self.recorder.take().into_iter().map(|report| report.version);
        let mut values: Vec<_> = reports.filter(|(key, _)| key == b"key").map(|(_, old)| old).collect();
        values.sort_unstable();
        values.into_iter().map(|old| String::from_utf8(old).unwrap()).collect()
    }

    /// Counts the reports.
    fn listen(&mut self) {
        for ReportedVersion { version, .. } in self.recorder.take() {
            let count = self.counts.get_mut(&version);
            *count.unwrap_or_else(|| panic!("{version:?} is not superseded")) += 1;
        }
        let twice = self.counts.iter().find(|(_, count)| **count > 1);
        assert!(twice.is_none(), "{twice:?}");
    }
}

#[test]
fn each_superseded_version_is_reported_once() {
    let mut kept = 0;
    for seed in 0..8 {
        let compaction = if seed % 2 == 0 { Compaction::Lookup } else { Compaction::Scan };
        let (mut reported, mut random) = (Reported::new(seed, compaction), SmallRng::seed_from_u64(seed));
        for _ in 0..80 {
            (0..random.random_range(0..200)).for_each(|_| reported.write(&mut random));
            let compactor = reported.fixture.compactor();
            match random.random_range(0..8) {
                0 => reported.fixture.compact().unwrap(),
                1 => *reported.fixture.journal.floor.lock().unwrap() = reported.fixture.hash.chains.log.tail(),
                2 => _ = compactor.merge_any_base().unwrap(),
                3 => compactor.merge().unwrap(),
                4 => {
                    // Without a compaction at once, so that the copies change before the old records go.
                    compactor.copy_updated_to_tail(reported.freeze());
                }
                _ => _ = compactor.compact_if_due().unwrap(),
            }
            reported.listen();
        }
        *reported.fixture.journal.floor.lock().unwrap() = Address::FIRST;
        reported.fixture.compact().unwrap();
        reported.fixture.merge_all_bases().unwrap();
        reported.listen();
        let silent = reported.counts.iter().find(|(_, count)| **count == 0);
        assert!(silent.is_none(), "{silent:?} was not reported");
        kept += reported.fixture.hash.counts.kept.get();
    }
    assert!(kept > 0, "no record was appended again");
}

#[test]
fn a_promised_record_is_not_appended_again() {
    let mut reported = Reported::new(1, Compaction::Lookup);
    reported.fixture.limits.merge = 2;
    // The first delta is the largest, so the merge takes the others.
    (0..100u32).for_each(|other| reported.fixture.set(&other.to_be_bytes(), &[7; 40]));
    reported.set(&["1", "2"]);
    *reported.fixture.journal.floor.lock().unwrap() = reported.fixture.hash.chains.log.tail();
    let region = reported.freeze();
    reported.fixture.compactor().copy_updated_to_tail(region);
    reported.fixture.compactor().compact(region.until).unwrap();
    reported.fixture.compact().unwrap();
    reported.set(&["3"]);
    reported.fixture.compact().unwrap();
    reported.fixture.compactor().merge().unwrap();
    reported.fixture.merge_all_bases().unwrap();
    assert_eq!(reported.reported(), ["1", "2"]);
}

#[test]
fn a_value_that_comes_back_is_reported_between() {
    for compaction in [Compaction::Lookup, Compaction::Scan] {
        let reported = Reported::new(1, compaction);
        for value in ["1", "2", "1"] {
            reported.set(&[value]);
            reported.freeze();
        }
        reported.fixture.compact().unwrap();
        assert_eq!(reported.reported(), ["1", "2"], "{compaction:?}");
    }
}

#[test]
fn a_version_that_was_appended_again_and_written_again_is_no_old_one() {
    for compaction in [Compaction::Lookup, Compaction::Scan] {
        let reported = Reported::new(1, compaction);
        reported.set(&["1", "2"]);
        let region = reported.freeze();
        reported.fixture.compactor().copy_updated_to_tail(region);
        reported.freeze();
        reported.set(&["2"]);
        reported.fixture.compact().unwrap();
        assert_eq!(reported.reported(), ["1"], "{compaction:?}");
        reported.set(&["3"]);
        reported.fixture.compact().unwrap();
        reported.fixture.merge_all_bases().unwrap();
        assert_eq!(reported.reported(), ["2"], "{compaction:?}");
    }
}
