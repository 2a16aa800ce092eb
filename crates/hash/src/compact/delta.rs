//! Writes the live records of a region into a delta.

use std::cmp::Reverse;

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::{Result, bug, storage::Block};

use super::{
    Compactor,
    liveness::LiveRecords,
    record::RecordCopy,
    sorter::{Reference, Sorter},
    unpublished::UnpublishedFiles,
};
use crate::cold::{Run, RunKind, RunWriter, Tags, block_size};

/// Consecutive records whose hashes may be equal. Some may have the same key.
#[derive(Debug, Default)]
struct Near {
    /// Hash, place and copy of each record.
    records: Vec<(u64, u64, RecordCopy)>,
    used: usize,
}

impl Compactor<'_> {
    /// Writes a delta with the newest live record of each key. Returns `None`, and makes no file, if no record is live.
    pub(super) fn write_delta(
        &self,
        mut living: LiveRecords,
        unpublished: &mut UnpublishedFiles<'_>,
        left_out: &mut LeftOut,
    ) -> Result<Option<(Run, Tags)>> {
        let count = living.references.len();
        if count == 0 {
            return Ok(None);
        }
        let kind = RunKind::Delta { from: living.region.from.get(), until: living.region.until.get() };
        let block = block_size(self.limits.block, living.bytes / count, living.largest);
        let mut writer = RunWriter::create(self.environment, self.install.name()?, kind, block)?;
        let mut references = std::mem::take::<Sorter>(&mut living.references).sorted().peekable();
        let (mut near, mut frame) = (Near::default(), None);
        while let Some(first) = references.next() {
            self.read_near(&living, first, &mut frame, &mut near)?;
            while let Some(next) = references.next_if(|next| next.is_near(first)) {
                self.read_near(&living, next, &mut frame, &mut near)?;
            }
            near.take(left_out, |hash, key, value| match value {
                None if bug!(DropTombstone) => Ok(()),
                _ => writer.push(hash, key, value),
            })?;
        }
        let delta = writer.finish()?;
        delta.iter().for_each(|(run, _)| unpublished.push(run));
        Ok(delta)
    }

    fn read_near(
        &self,
        living: &LiveRecords,
        reference: Reference,
        frame: &mut Option<Block>,
        near: &mut Near,
    ) -> Result<()> {
        let (hash, place, copied) = near.next();
        self.read(living, reference, frame, copied)?;
        (*hash, *place) = (self.hash.chains.key(copied.key()).hash, reference.place());
        Ok(())
    }
}

impl Near {
    /// The slot of the next record. Its buffers are reused.
    fn next(&mut self) -> &mut (u64, u64, RecordCopy) {
        if self.used == self.records.len() {
            self.records.push(Default::default());
        }
        self.used += 1;
        &mut self.records[self.used - 1]
    }

    /// Passes the newest record of each key to `take`, in order, and clears the list. Older records are left out.
    fn take(
        &mut self,
        left_out: &mut LeftOut,
        mut take: impl FnMut(u64, &[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let records = &mut self.records[..self.used];
        records.sort_by(|(a_hash, a_place, a), (b_hash, b_place, b)| {
            (a_hash, a.key(), Reverse(a_place)).cmp(&(b_hash, b.key(), Reverse(b_place)))
        });
        self.used = 0;
        let mut last: Option<&[u8]> = None;
        for (hash, _, record) in &*records {
            if last != Some(record.key()) {
                take(*hash, record.key(), record.value())?;
                left_out.newest(record.value());
            } else {
                left_out.hidden(record.key(), record.value());
            }
            last = Some(record.key());
        }
        Ok(())
    }
}
