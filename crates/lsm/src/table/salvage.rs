//! Salvage of a table that may be damaged: reads every block that verifies, in key order, and reports the key ranges
//! that lie between such blocks as lost (repair.md, "Tables").

use std::{mem, ops::Range, result, sync::Arc};

use ecotone_engine::repair::{FirstPage, KeyRange, key_successor, separate_damage};
use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, Access, File, FileId},
    table::FileIdentity,
};
use ecotone_sys::chunk::Size;

use crate::table::{
    block::Block,
    compression::{self, Compression, plain_room},
    decoded::DecodedInterval,
    header::{BLOCK_BITS, Header},
};

/// The outline of a table, from its header, or from its blocks if the header is damaged.
#[derive(Debug)]
pub(crate) struct SalvageHeader {
    pub(crate) name: FileIdentity,
    /// Bytes of a block, and the number of blocks. Without a header the blocks end with the last one that verifies.
    block: usize,
    blocks: u32,
    packed: bool,
    /// First and last key, and sequences; `None` if the header is damaged.
    pub(crate) header: Option<KnownHeader>,
    /// A problem of the header or of the file's length.
    pub(crate) problem: Option<Error>,
}

/// What a header says about the records: key range and sequences.
#[derive(Debug)]
pub(crate) struct KnownHeader {
    pub(crate) first: Box<[u8]>,
    pub(crate) last: Box<[u8]>,
    pub(crate) sequences: (u64, u64),
}

/// A step of a reader.
#[derive(Debug)]
pub(crate) enum Step {
    /// A record.
    Record,
    /// Blocks that cannot be read, with the range of keys that they may have had.
    Lost { range: KeyRange, blocks: u32, error: Error },
    /// Behind the last record.
    End,
}

impl SalvageHeader {
    /// Reads the header of a table. If the header is damaged, searches for blocks that verify. Where `database` or
    /// `birth` is unknown, the header's own value is used.
    ///
    /// # Errors
    /// If there is no such file, it cannot be read at all, or a later version wrote it; if there is no memory for a
    /// block.
    pub(crate) fn read(
        environment: &Environment,
        (keyspace, number): (u32, u32),
        database: Option<u64>,
        birth: Option<u64>,
    ) -> Result<SalvageHeader> {
        let said = FirstPage::read(environment, FileId::Table { keyspace, number })?;
        let (database, birth) = (database.unwrap_or(said.database()), birth.unwrap_or(said.birth()));
        let name = FileIdentity { database, keyspace, number, birth };
        match separate_damage(Header::open_part(environment, name))? {
            Ok(header) => Ok(SalvageHeader::of(name, header, said.length)),
            Err(error) => {
                let blocks = Search { environment, file: &said.file, name, length: said.length }.blocks()?;
                let (block, blocks) = blocks.unwrap_or((PAGE, 0));
                Ok(SalvageHeader { name, block, blocks, packed: true, header: None, problem: Some(error) })
            }
        }
    }

    fn of(name: FileIdentity, header: Header, length: u64) -> SalvageHeader {
        let other = || Error::corruption(name.file(), length, "the file has another length than its header says");
        let problem = (header.end() != length).then(other);
        let (block, blocks, packed) = (header.block, header.blocks, header.compression != Compression::None);
        let Header { first, last, sequences, .. } = header;
        SalvageHeader { name, block, blocks, packed, header: Some(KnownHeader { first, last, sequences }), problem }
    }

    /// A lower bound of its keys: the first key, or empty without a header.
    pub(crate) fn first(&self) -> &[u8] {
        self.header.as_ref().map_or(&[], |told| &told.first)
    }

    /// The range of its keys, as far as it is known.
    fn range(&self) -> KeyRange {
        (self.first().to_vec(), self.header.as_ref().map(|told| key_successor(&told.last)))
    }
}

/// A search for blocks in a table with a damaged header.
struct Search<'s> {
    environment: &'s Environment,
    file: &'s Arc<dyn File>,
    name: FileIdentity,
    length: u64,
}

impl Search<'_> {
    /// The block size with which most blocks verify, and the number behind the last block that does.
    fn blocks(&self) -> Result<Option<(usize, u32)>> {
        let mut best = None;
        for block in BLOCK_BITS.map(|bits| 1_usize << bits) {
            let (count, end) = self.verified(block)?;
            best = best.max((count > 0).then_some((count, block, end)));
        }
        Ok(best.map(|(_, block, end)| (block, end)))
    }

    fn verified(&self, block: usize) -> Result<(u32, u32)> {
        let outline = SalvageHeader { name: self.name, block, blocks: 0, packed: true, header: None, problem: None };
        let mut remains = SalvageReader::of(self.environment, self.file.clone(), outline)?;
        let blocks = u32::try_from(self.length.saturating_sub(PAGE as u64) / block as u64).unwrap_or(u32::MAX);
        let (mut count, mut end) = (0, 0);
        for number in 0..blocks {
            if remains.load(number).is_ok() {
                (count, end) = (count + 1, number + 1);
            }
        }
        Ok((count, end))
    }
}

/// Iterates over the readable records of a table.
#[derive(Debug)]
pub(crate) struct SalvageReader {
    outline: SalvageHeader,
    file: Arc<dyn File>,
    memory: storage::Block,
    /// The place of the plain form of the present block in the memory.
    plain: Range<usize>,
    /// The block that is read next.
    next: u32,
    run: usize,
    runs: usize,
    /// The records of the present run.
    records: DecodedInterval,
    at: usize,
    /// The last key of the blocks before; empty before the first.
    last: Vec<u8>,
    /// Whether lost blocks were just reported, and the first record of the present block comes next.
    told: bool,
    is_over: bool,
    /// The number of blocks that were read.
    pub(crate) whole: u64,
}

impl SalvageReader {
    /// A reader before the first record.
    ///
    /// # Errors
    /// If the file cannot be opened, or there is no memory for a block.
    pub(crate) fn open(environment: &Environment, outline: SalvageHeader) -> Result<SalvageReader> {
        let file = environment.storage.open(outline.name.file(), Access::Cached)?;
        SalvageReader::of(environment, file, outline)
    }

    fn of(environment: &Environment, file: Arc<dyn File>, outline: SalvageHeader) -> Result<SalvageReader> {
        let bytes = outline.block + if outline.packed { plain_room(outline.block) } else { 0 };
        let size = if bytes > Size::Frame.bytes() { Size::Slab } else { Size::Frame };
        let memory = environment.memory.lease_essential(Component::Frames, size)?;
        Ok(SalvageReader {
            outline,
            file,
            memory,
            plain: 0..0,
            next: 0,
            run: 0,
            runs: 0,
            records: DecodedInterval::default(),
            at: 0,
            last: Vec::new(),
            told: false,
            is_over: false,
            whole: 0,
        })
    }

    /// Goes to the next record, lost range, or the end.
    pub(crate) fn advance(&mut self) -> Step {
        if mem::take(&mut self.told) {
            return Step::Record;
        }
        if self.at + 1 < self.records.len() {
            self.at += 1;
            return Step::Record;
        }
        if self.run + 1 < self.runs && self.take(self.run + 1).is_ok() {
            return Step::Record;
        }
        self.next_block()
    }

    /// The present key.
    pub(crate) fn key(&self) -> &[u8] {
        self.records.key(self.at)
    }

    /// The present value; `None` for a tombstone.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let place = self.records.value(self.at)?;
        self.memory.get(self.plain.start + place.start..self.plain.start + place.end)
    }

    /// Goes to the next block that verifies. Damaged blocks before it are reported first.
    fn next_block(&mut self) -> Step {
        if self.records.len() > 0 {
            self.last = self.records.key(self.records.len() - 1).to_vec();
        }
        let (mut lost, mut first_error) = (0, None);
        while self.next < self.outline.blocks {
            let number = self.next;
            self.next += 1;
            match self.load(number).and_then(|()| self.enter(number)) {
                Ok(()) if lost == 0 => return Step::Record,
                Ok(()) => {
                    self.told = true;
                    let range = (self.behind_last(), Some(self.key().to_vec()));
                    return Step::Lost { range, blocks: lost, error: first_error.expect("a block was lost") };
                }
                Err(error) => {
                    lost += 1;
                    first_error = first_error.or(Some(error));
                }
            }
        }
        self.end(lost, first_error)
    }

    /// The end of the table. Without a header, unknown blocks may have followed, so the rest is reported as lost.
    fn end(&mut self, blocks: u32, error: Option<Error>) -> Step {
        (self.runs, self.records) = (0, DecodedInterval::default());
        if mem::replace(&mut self.is_over, true) {
            return Step::End;
        }
        let unknown = self.outline.header.is_none();
        let error = error.or_else(|| unknown.then(|| self.outline.problem.clone()).flatten());
        let range = (self.behind_last(), self.outline.range().1);
        error.map_or(Step::End, |error| Step::Lost { range, blocks, error })
    }

    fn behind_last(&self) -> Vec<u8> {
        if self.last.is_empty() { self.outline.first().to_vec() } else { key_successor(&self.last) }
    }

    /// Reads and checks a block.
    fn load(&mut self, number: u32) -> Result<()> {
        let at = PAGE as u64 + u64::from(number) * self.outline.block as u64;
        self.plain = 0..0;
        self.file.read(&mut self.memory[..self.outline.block], at)?;
        self.plain = self.unpack(number).map_err(|e| e.at(self.outline.name.file(), at))?;
        Ok(())
    }

    /// Unpacks and checks the block in memory. Gives the place of its plain form.
    fn unpack(&mut self, number: u32) -> result::Result<Range<usize>, Malformed> {
        let size = self.outline.block;
        let (bytes, room) = self.memory.split_at_mut(size);
        let room = if self.outline.packed { room } else { &mut [] };
        let block = Block::unpack(bytes, self.outline.name.place(number), room)?;
        block.check()?;
        let packed = compression::plain_bytes(&self.memory[..size]);
        Ok(packed.map_or(0..size, |length| size..size + length))
    }

    /// Makes the block in memory the present one.
    fn enter(&mut self, number: u32) -> Result<()> {
        let runs = self.block().map(|block| block.runs());
        let entered = runs.and_then(|runs| {
            self.runs = runs;
            self.take(0)?;
            let ascends = self.last.as_slice() < self.key();
            if ascends { Ok(()) } else { Err(Malformed::new(0, "the records of the table are out of order")) }
        });
        let at = PAGE as u64 + u64::from(number) * self.outline.block as u64;
        entered.map_err(|e| e.at(self.outline.name.file(), at))?;
        self.whole += 1;
        Ok(())
    }

    fn block(&self) -> result::Result<Block<'_>, Malformed> {
        Block::reparse(self.memory.get(self.plain.clone()).unwrap_or_default())
    }

    /// Takes the records of a run of the present block.
    fn take(&mut self, run: usize) -> result::Result<(), Malformed> {
        let block = Block::reparse(self.memory.get(self.plain.clone()).unwrap_or_default())?;
        self.records.take(block.entries(run)?)?;
        (self.run, self.at) = (run, 0);
        Ok(())
    }
}
