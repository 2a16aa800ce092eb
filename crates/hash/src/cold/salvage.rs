//! Salvage of a run that may be damaged: reads every block that verifies (repair.md, "Hash keyspaces").

use std::{ops::Range, sync::Arc};

use ecotone_engine::repair::{FirstPage, separate_damage};
use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, File},
    table::FileIdentity,
};
use ecotone_sys::chunk::Size;

use super::{
    block::{Block, Entry},
    cursor::HashOf,
    hash_range::HashRange,
    header::{BLOCK_BITS, Header, RunKind},
    run::Run,
};

/// A run to salvage, with its fences if they are intact.
#[derive(Debug)]
pub(crate) struct RunSalvage {
    name: FileIdentity,
    file: Arc<dyn File>,
    frame: storage::Block,
    /// `None` if header, length or fences are damaged: then all blocks are read.
    run: Option<Run>,
    /// `None` without a header.
    pub(crate) kind: Option<RunKind>,
    block: usize,
    blocks: u32,
    /// What is wrong with header, length or fences.
    pub(crate) problem: Option<Error>,
}

/// The result of a salvage.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) whole: u64,
    pub(crate) lost: u64,
    /// The first error.
    pub(crate) error: Option<Error>,
}

impl RunSalvage {
    /// Opens a run, or what is left of it. Its file was opened before.
    ///
    /// # Errors
    /// If a later version wrote it; if there is no memory for fences and a block.
    pub(crate) fn open(environment: &Environment, name: FileIdentity, said: FirstPage) -> Result<RunSalvage> {
        let frame = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        let file = said.file;
        let mut remains =
            RunSalvage { name, file, frame, run: None, kind: None, block: PAGE, blocks: 0, problem: None };
        match separate_damage(Run::open(environment, name))? {
            Ok(run) => {
                (remains.kind, remains.block, remains.blocks) = (Some(run.kind()), run.block_size(), run.blocks());
                remains.run = Some(run);
                return Ok(remains);
            }
            Err(error) => remains.problem = Some(error),
        }
        match separate_damage(Header::open_part(environment, name))? {
            Ok(header) => {
                (remains.kind, remains.block, remains.blocks) = (Some(header.kind), header.block, header.blocks)
            }
            Err(_) => remains.search(said.length),
        }
        Ok(remains)
    }

    /// Guesses the block size: the one with which most blocks verify. The last block that verifies gives the number of
    /// blocks.
    fn search(&mut self, length: u64) {
        let mut best = (0, PAGE, 0);
        for block in BLOCK_BITS.map(|bits| 1_usize << bits) {
            self.block = block;
            let blocks = u32::try_from(length.saturating_sub(PAGE as u64) / block as u64).unwrap_or(u32::MAX);
            let (mut count, mut end) = (0, 0);
            for number in 0..blocks {
                if self.read(number, None).is_ok() {
                    (count, end) = (count + 1, number + 1);
                }
            }
            best = best.max((count, block, end));
        }
        (_, self.block, self.blocks) = best;
    }

    /// Passes the records in some hash ranges, which ascend, to `visit`; each once.
    ///
    /// # Errors
    /// Errors of `visit`.
    pub(crate) fn each(
        &mut self,
        hash_ranges: &[HashRange],
        hash_of: &HashOf<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<Seen> {
        let own = self.kind.map_or(HashRange::ALL, RunKind::hash_range);
        let parts: Vec<(&[HashRange], Range<u32>)> = match &self.run {
            Some(run) => {
                hash_ranges.chunks(1).map(|hash_range| (hash_range, run.blocks_of(&hash_range[0].hashes()))).collect()
            }
            None => vec![(hash_ranges, 0..self.blocks)],
        };
        let (mut seen, file) = (Seen::default(), self.name.file());
        for (hash_ranges, blocks) in parts {
            for number in blocks {
                let parsed = match self.read(number, Some(hash_of)) {
                    Ok(parsed) => parsed,
                    Err(error) => {
                        seen.lost += 1;
                        seen.error = seen.error.or(Some(error));
                        continue;
                    }
                };
                seen.whole += 1;
                for entry in parsed.entries() {
                    let entry = entry.map_err(|malformed| malformed.at(file, 0))?;
                    let hash = hash_of(entry.key);
                    if own.has(hash) && hash_ranges.iter().any(|hash_range| hash_range.has(hash)) {
                        visit(entry)?;
                    }
                }
            }
        }
        if self.kind.is_none() {
            // Without a header the number of blocks is unknown.
            seen.error = seen.error.or(self.problem.clone());
        }
        Ok(seen)
    }

    /// Reads a block, and checks all of it if `checked` is given.
    fn read(&mut self, number: u32, checked: Option<&HashOf<'_>>) -> Result<Block<'_>> {
        let at = PAGE as u64 + u64::from(number) * self.block as u64;
        let bytes = &mut self.frame[..self.block];
        self.file.read(bytes, at)?;
        let block = Block::parse(bytes, self.name.place(number));
        let block = block.and_then(|block| checked.map_or(Ok(()), |hash_of| block.check(hash_of)).map(|()| block));
        block.map_err(|malformed| malformed.at(self.name.file(), at))
    }
}
