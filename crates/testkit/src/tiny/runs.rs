//! The structure of the append-only engine: sorted runs of blocks, and the blocks that no run has.

use std::{collections::BTreeSet, sync::Arc};

use ecotone_substrate::{
    Seq,
    codec::{Malformed, Reader, Writer},
};

/// Most blocks that one run can have, for decoders.
const MOST_BLOCKS: u64 = 1 << 20;

/// A sorted run: its blocks in order, with their smallest keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) blocks: Vec<u32>,
    /// Empty until recovery has read them.
    pub(super) lowers: Vec<Vec<u8>>,
}

impl Run {
    /// A run is known by its first block, since no two have the same.
    fn id(&self) -> Option<u32> {
        self.blocks.first().copied()
    }

    /// The block that has `key`, if any has.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        let after = self.lowers.partition_point(|lower| lower.as_slice() <= key);
        self.blocks.get(after.checked_sub(1)?).copied()
    }
}

/// A structural change: the runs that go, by their first blocks, and the blocks of the one that comes, if it has any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) out: Vec<u32>,
    pub(super) come: Vec<u32>,
}

impl Change {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        numbers(&mut writer, &self.out);
        numbers(&mut writer, &self.come);
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let change = Change { out: read_numbers(&mut reader)?, come: read_numbers(&mut reader)? };
        reader.finish()?;
        Ok(change)
    }
}

fn numbers(writer: &mut Writer, numbers: &[u32]) {
    writer.varint(numbers.len() as u64);
    numbers.iter().for_each(|number| _ = writer.u32(*number));
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Vec<u32>, Malformed> {
    let count = reader.varint()?;
    if count > MOST_BLOCKS {
        return reader.fail("a run is longer than any");
    }
    (0..count).map(|_| reader.u32()).collect()
}

/// The runs, oldest first. Shared with readers, who take a copy.
pub(super) type Runs = Vec<Arc<Run>>;

/// The root of a keyspace.
pub(super) fn encode_runs(runs: &Runs) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.varint(runs.len() as u64);
    runs.iter().for_each(|run| numbers(&mut writer, &run.blocks));
    writer.finish()
}

pub(super) fn decode_runs(bytes: &[u8]) -> Result<Runs, Malformed> {
    let mut reader = Reader::new(bytes);
    let count = reader.varint()?;
    let run = |_| Ok(Arc::new(Run { blocks: read_numbers(&mut reader)?, lowers: Vec::new() }));
    let runs = (0..count.min(MOST_BLOCKS)).map(run).collect::<Result<_, _>>()?;
    reader.finish()?;
    Ok(runs)
}

/// Makes the change. Gives the blocks that no run has any more, or `None` if a run that goes is not there.
pub(super) fn install(runs: &mut Runs, change: &Change, lowers: Vec<Vec<u8>>) -> Option<Vec<u32>> {
    let goes = |run: &Arc<Run>| run.id().is_some_and(|id| change.out.contains(&id));
    let (gone, mut stay): (Runs, Runs) = std::mem::take(runs).into_iter().partition(goes);
    if !change.come.is_empty() {
        stay.push(Arc::new(Run { blocks: change.come.clone(), lowers }));
    }
    *runs = stay;
    (gone.len() == change.out.len()).then(|| gone.iter().flat_map(|run| run.blocks.clone()).collect())
}

/// The blocks that no run has.
#[derive(Debug, Default)]
pub(super) struct Free {
    now: BTreeSet<u32>,
    /// Free when the structural record with this sequence is synced.
    later: Vec<(Seq, Vec<u32>)>,
    /// Blocks of the file.
    pub(super) end: u32,
}

impl Free {
    /// All blocks of a file of `end` blocks that `runs` do not have.
    pub(super) fn beside(runs: &Runs, end: u32) -> Self {
        let used: BTreeSet<u32> = runs.iter().flat_map(|run| run.blocks.iter().copied()).collect();
        Free { now: (0..end).filter(|block| !used.contains(block)).collect(), later: Vec::new(), end }
    }

    pub(super) fn free_later(&mut self, blocks: Vec<u32>, seq: Seq) {
        self.later.push((seq, blocks));
    }

    pub(super) fn give_back(&mut self, blocks: Vec<u32>) {
        self.now.extend(blocks);
    }

    /// Adds new blocks at the end of the file.
    pub(super) fn extend_to(&mut self, end: u32) {
        self.now.extend(self.end..end);
        self.end = end;
    }

    /// Takes `count` blocks, if so many are free with the log synced below `synced`.
    pub(super) fn take(&mut self, count: usize, synced: Seq) -> Option<Vec<u32>> {
        let ripe = |(seq, _): &mut (Seq, Vec<u32>)| *seq < synced || ecotone_substrate::bug!(FreeSpaceEarly);
        self.now.extend(self.later.extract_if(.., ripe).flat_map(|(_, blocks)| blocks));
        if self.now.len() < count {
            return None;
        }
        let taken: Vec<u32> = self.now.iter().copied().take(count).collect();
        taken.iter().for_each(|block| _ = self.now.remove(block));
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_runs_come_back_and_damage_is_found() {
        let change = Change { out: vec![3, 9], come: vec![4, 5, 6] };
        let bytes = change.encode();
        assert_eq!(Change::decode(&bytes), Ok(change));
        let runs: Runs = [vec![1, 2], vec![7]].map(|blocks| Arc::new(Run { blocks, lowers: Vec::new() })).into();
        let root = encode_runs(&runs);
        assert_eq!(decode_runs(&root), Ok(runs));
        for cut in 0..bytes.len() {
            assert!(Change::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for cut in 0..root.len() {
            assert!(decode_runs(&root[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn blocks_are_taken_again_when_the_record_that_freed_them_is_synced() {
        let mut runs: Runs = vec![Arc::new(Run { blocks: vec![0, 2], lowers: vec![b"a".to_vec(), b"m".to_vec()] })];
        assert_eq!([&b"A"[..], b"a", b"l", b"z"].map(|key| runs[0].find(key)), [None, Some(0), Some(0), Some(2)]);
        let mut free = Free::beside(&runs, 4);
        assert_eq!(free.take(2, 100), Some(vec![1, 3]));
        let gone = install(&mut runs, &Change { out: vec![0], come: vec![1] }, vec![vec![]]).unwrap();
        free.free_later(gone, 100);
        assert_eq!(free.take(1, 100), None);
        assert_eq!(free.take(1, 101), Some(vec![0]));
        assert_eq!(install(&mut runs, &Change { out: vec![0], come: vec![] }, vec![]), None);
    }
}
