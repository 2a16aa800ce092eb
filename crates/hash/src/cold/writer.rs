//! Writes a run from records in hash order.

use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::MAX_RECORD,
    memory::Component,
    table::{FileIdentity, Output},
};
use ecotone_sys::chunk::Size;

use super::{
    block::BlockBuilder,
    fences::FencesBuilder,
    header::{Header, RunKind},
    run::Run,
    tags::{TagPages, Tags, TagsForm},
};

/// A block should hold at least this many records of the mean size.
const MEAN_RECORDS: usize = 8;

/// The smallest block size, at least `least` bytes, with room for eight records of the mean size and for the largest
/// record; 4096 if none is large enough.
pub fn block_size(least: usize, mean: usize, largest: usize) -> usize {
    let fits = |size: &usize| *size >= least && BlockBuilder::room(*size) >= largest.max(MEAN_RECORDS * mean);
    [1024, 2048].into_iter().find(fits).unwrap_or(4096)
}

/// A run that is being written. Dropping it before it is finished removes its file.
#[derive(Debug)]
pub struct RunWriter {
    environment: Environment,
    name: FileIdentity,
    output: Output,
    block: BlockBuilder,
    fences: FencesBuilder,
    tags: Tags,
    header: Header,
    /// Hash and key of the last record.
    last: (u64, Vec<u8>),
}

impl RunWriter {
    /// Creates the file, for blocks of `block` bytes.
    ///
    /// # Errors
    /// If the file cannot be made, or memory for writing it is lacking. Then there is no file.
    pub fn create(environment: &Environment, name: FileIdentity, kind: RunKind, block: usize) -> Result<RunWriter> {
        let builder = BlockBuilder::new(&environment.memory, block)?;
        let output = Output::create(environment, name)?;
        let header =
            Header { kind, block, blocks: 0, records: 0, tombstones: 0, fences_checksum: 0, tags: TagsForm::Paged };
        Ok(RunWriter {
            environment: environment.clone(),
            name,
            output,
            block: builder,
            fences: FencesBuilder::default(),
            tags: Tags::default(),
            header,
            last: (0, Vec::new()),
        })
    }

    /// Number of records so far.
    pub fn len(&self) -> u64 {
        self.header.records
    }

    /// Whether there are none yet.
    pub fn is_empty(&self) -> bool {
        self.header.records == 0
    }

    /// Adds a record; no value is a tombstone.
    ///
    /// # Errors
    /// If memory or disk space is lacking, or a write fails.
    ///
    /// # Panics
    /// If hash and key are not above those of the last record, the run's hash range does not have the hash, a limit is
    /// exceeded, or a base gets a tombstone: the record would be lost.
    pub fn push(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        assert!((self.last.0, &*self.last.1) < (hash, key), "a record of a run is out of order");
        assert!(self.header.kind.hash_range().has(hash), "a record of a run belongs to another partition");
        if !self.block.push(hash, key, value) {
            self.end_block()?;
            assert!(self.block.push(hash, key, value), "a record is larger than a block");
        }
        if let RunKind::Delta { .. } = self.header.kind {
            self.tags.push(&self.environment.memory, hash)?;
        } else {
            assert!(value.is_some(), "nothing is older than what a base has, so it has no tombstones");
        }
        self.last.0 = hash;
        self.last.1.clear();
        self.last.1.extend_from_slice(key);
        self.header.records += 1;
        self.header.tombstones += u64::from(value.is_none());
        Ok(())
    }

    /// Writes the rest and syncs the file; its name is durable after
    /// [`Storage::sync_dir`](ecotone_substrate::storage::Storage::sync_dir). `None`, and no file, if there were no
    /// records. The tags are those of a delta.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then there is no file.
    pub fn finish(mut self) -> Result<Option<(Run, Tags)>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.end_block()?;
        let memory = &self.environment.memory;
        let fences = std::mem::take(&mut self.fences).finish(memory)?;
        self.header.fences_checksum = fences.pages().checksum();
        self.tags.seal(TagPages { name: self.name, blocks: self.header.blocks });
        let mut first = memory.lease_essential(Component::Frames, Size::Frame)?;
        self.header.encode(self.name, &mut first);
        let mut output = self.output;
        output.pad()?;
        fences.pages().iter().chain(self.tags.pages().iter()).try_for_each(|page| output.append(page))?;
        let file = output.finish(first)?;
        Ok(Some((Run::of(file, self.name, self.header, fences), self.tags)))
    }

    fn end_block(&mut self) -> Result<()> {
        let place = self.name.place(self.header.blocks);
        self.fences.push(&self.environment.memory, self.block.first_hash())?;
        self.header.blocks += 1;
        let output = &mut self.output;
        self.block.finish(place, |bytes| output.append(bytes))
    }
}

const _: () = assert!(MAX_RECORD + 9 <= 2048 - 16, "a block of 2048 bytes takes any record");

#[cfg(test)]
mod tests {
    use super::{super::record_bytes, *};

    #[test]
    fn a_block_has_room_for_eight_mean_records_and_the_largest() {
        let mean = record_bytes(8, 100);
        assert_eq!(mean, 115);
        assert_eq!(block_size(1024, mean, mean), 1024);
        assert_eq!(block_size(2048, mean, mean), 2048);
        assert_eq!(block_size(4096, 20, 20), 4096);
        assert_eq!(block_size(1024, mean, record_bytes(1024, 876)), 2048);
        assert_eq!(block_size(1024, 127, 20), 2048);
        assert_eq!(block_size(1024, 1000, 1909), 4096);
        assert_eq!(record_bytes(1024, 876), 1909);
    }
}
