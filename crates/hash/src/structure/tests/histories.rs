//! Random sequences of edits. Each edit leaves a consistent structure, names every file once, and is recovered from its
//! root.

use std::collections::BTreeSet;

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use super::*;

/// A sequence of edits, and the files that exist after them.
struct History {
    random: SmallRng,
    manifest: HashManifest,
    next: u32,
    there: BTreeSet<u32>,
}

impl History {
    fn new(seed: u64) -> History {
        let random = SmallRng::seed_from_u64(seed);
        History { random, manifest: HashManifest::new(10), next: 1, there: BTreeSet::new() }
    }

    fn fresh(&mut self) -> FileRef {
        self.next += 1;
        self.there.insert(self.next - 1);
        file(self.next - 1)
    }

    /// A new file in most cases.
    fn some(&mut self) -> Option<FileRef> {
        self.random.random_bool(0.8).then(|| self.fresh())
    }

    /// A valid random edit, if one of the drawn kind is possible.
    fn change(&mut self) -> Option<ManifestEdit> {
        match self.random.random_range(0..10) {
            0..3 => Some(self.segment()),
            3..6 => self.compact(),
            6..9 => self.merge_into_base(),
            _ => self.merge(),
        }
    }

    fn segment(&mut self) -> ManifestEdit {
        let from = self.manifest.segments.last().map_or(self.manifest.begin, LogFile::end);
        let bytes = MIB << self.random.random_range(0..3);
        ManifestEdit::Segment(LogFile { file: self.fresh(), from, bytes })
    }

    fn compact(&mut self) -> Option<ManifestEdit> {
        if self.manifest.deltas.len() == MAX_DELTAS {
            return None;
        }
        let begin = self.manifest.begin.plus(PAGE * self.random.random_range(1..400));
        let end = self.manifest.segments.last().map_or(begin, LogFile::end).max(begin);
        let least = begin.get() / PAGE;
        let durable = page(self.random.random_range(least..=end.get() / PAGE));
        Some(ManifestEdit::Compact { added: self.some(), begin, durable, index_bits: 10 })
    }

    fn merge_into_base(&mut self) -> Option<ManifestEdit> {
        let at = self.random.random_range(0..self.manifest.partitions.len());
        let Partition { part: deleted, merged_until } = self.manifest.partitions[at];
        let merged_until = self.manifest.deltas.last().map_or(merged_until, |delta| delta.until.max(merged_until));
        let (bits, number) = (deleted.hash_range.bits(), deleted.hash_range.number());
        let halves = bits < MAX_PARTITION_BITS && self.random.random_bool(0.1);
        let hash_ranges =
            if halves { vec![(bits + 1, 2 * number), (bits + 1, 2 * number + 1)] } else { vec![(bits, number)] };
        let added = hash_ranges
            .into_iter()
            .map(|(bits, number)| PartitionEntry { hash_range: hash_range(bits, number), base: self.some() })
            .collect();
        Some(ManifestEdit::MergeIntoBase { deleted, added, merged_until })
    }

    fn merge(&mut self) -> Option<ManifestEdit> {
        let count = self.manifest.deltas.len();
        if count == 0 {
            return None;
        }
        let first = self.random.random_range(0..count);
        let last = self.random.random_range(first..count);
        let deleted = self.manifest.deltas[first..=last].iter().map(|delta| delta.file).collect();
        Some(ManifestEdit::MergeDeltas { deleted, added: self.some() })
    }

    fn step(&mut self) {
        let Some(change) = self.change() else { return };
        let replayed = ManifestEdit::decode(&change.encode()).unwrap();
        assert_eq!(replayed, change);
        let (next, gone) = self.manifest.after(&replayed).unwrap_or_else(|what| panic!("{change:?}: {what}"));
        for FileRef { number, .. } in gone.segments.iter().chain(&gone.tables) {
            assert!(self.there.remove(number), "{change:?}: file {number} goes twice");
        }
        assert_eq!(next.numbers().collect::<BTreeSet<_>>(), self.there, "{change:?}");
        assert!(next.begin >= self.manifest.begin && next.durable >= self.manifest.durable);
        assert_eq!(
            blob::decode(&blob::encode(HashOptions::default(), &next)),
            Ok((HashOptions::default(), next.clone()))
        );
        self.manifest = next;
    }
}

#[test]
fn random_changes_leave_what_fits_and_lose_no_file() {
    for seed in 0..60 {
        let mut history = History::new(seed);
        (0..200).for_each(|_| history.step());
        assert!(history.manifest.begin > Address::FIRST && history.next > 100, "seed {seed}");
    }
}

/// Randomly damaged bytes.
fn damaged(random: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len());
        bytes[at] = random.next_u32() as u8;
    }
    bytes
}

#[test]
fn damage_is_told_or_leaves_what_fits() {
    let mut random = SmallRng::seed_from_u64(1);
    let (changes, manifest) = example();
    let (root, mut told) = (blob::encode(HashOptions::default(), &manifest), 0);
    for round in 0..40_000 {
        match blob::decode(&damaged(&mut random, &root)) {
            Ok((_, manifest)) => manifest.check().unwrap(),
            Err(_) => told += 1,
        }
        let body = damaged(&mut random, &changes[round % changes.len()].encode());
        if let Ok((next, _)) =
            ManifestEdit::decode(&body).map_err(|_| "damaged").and_then(|change| manifest.after(&change))
        {
            next.check().unwrap();
        }
    }
    assert!(told > 10_000, "{told}");
}
