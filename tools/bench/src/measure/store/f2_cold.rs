//! The cold tier of the F2 paper (Kanellis et al., "F2: Designing a Key-Value Store for Large Skewed Workloads", the
//! cold log and its two-level index), as the baseline of our cold tier. It is a log of records, and chunks of 32
//! entries on disk; only the addresses of the chunks are in memory. It is loaded once and then only read: a chunk, then
//! a record.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    hash::BuildHasher,
    io::Write,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::contract::{Change, Options, Record, Stats, Store, Visit, VisitRecord};
use crate::{error::Result, row::Durability};

const PAGE: usize = 4096;
/// Entries of a chunk, and the mean number in use. Few chunks overflow at this mean, so the overflow is kept in memory.
const ENTRIES: usize = 32;
const MEAN: u64 = 20;
const CHUNK: usize = 8 * ENTRIES;
/// Bits of an address; a tag is above them.
const ADDRESS: u32 = 48;
/// Bytes of entries that are placed into their chunks in one pass while the index is built.
const PART: usize = 64 << 20;
/// Pages that one read takes while the index is built.
const WINDOW: usize = 256;

/// A page in memory, aligned for direct I/O.
#[repr(align(4096))]
struct Page([u8; PAGE]);

/// Consecutive pages.
#[repr(align(4096))]
struct Window([u8; WINDOW * PAGE]);

impl Page {
    fn new() -> Box<Page> {
        Box::new(Page([0; PAGE]))
    }
}

/// The end of the log during the load.
struct Tail {
    page: Box<Page>,
    filled: usize,
    pages: u64,
}

/// The part of the index in memory.
struct Index {
    /// The position of each chunk in the log of chunks.
    chunks: Vec<u64>,
    /// Records by hash whose chunk was full.
    surplus: HashMap<u64, Vec<u64>, FixedState>,
}

pub(super) struct F2Cold {
    directory: PathBuf,
    records: File,
    tail: Mutex<Tail>,
    chunks: OnceLock<(File, Index)>,
}

fn hash(key: &[u8]) -> u64 {
    FixedState::with_seed(7).hash_one(key)
}

/// 0 means no entry, so addresses count from 1.
fn entry(hash: u64, address: u64) -> u64 {
    hash << ADDRESS | (address + 1)
}

fn open(path: &Path) -> Result<File> {
    let direct = OFlags::DIRECT.bits() as i32;
    Ok(OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(direct).open(path)?)
}

impl F2Cold {
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        if options.durability != Durability::None {
            return Err("the cold tier of F2 has no log here; only --durability none can be had".into());
        }
        std::fs::create_dir_all(options.directory)?;
        let records = open(&options.directory.join("records"))?;
        let pages = records.metadata()?.len() / PAGE as u64;
        let tail = Mutex::new(Tail { page: Page::new(), filled: 0, pages });
        let store = F2Cold { directory: options.directory.to_owned(), records, tail, chunks: OnceLock::new() };
        if pages > 0 {
            store.index()?;
        }
        Ok(store)
    }

    /// Builds the index of all loaded records.
    fn index(&self) -> Result<()> {
        if self.chunks.get().is_some() {
            return Ok(());
        }
        let records = self.finish()?;
        let chunks = records.div_ceil(MEAN).max(1);
        let mut index =
            Index { chunks: (0..chunks).map(|chunk| chunk * CHUNK as u64).collect(), surplus: HashMap::default() };
        let path = self.directory.join("chunks");
        let mut file = std::io::BufWriter::new(File::create(&path)?);
        let a_part = (PART as u64 / 16 / MEAN).max(1);
        for first in (0..chunks).step_by(a_part as usize) {
            let part = first..chunks.min(first + a_part);
            let mut entries: Vec<Vec<u64>> = vec![Vec::new(); (part.end - part.start) as usize];
            self.each(|key, address| {
                let hash = hash(key);
                let chunk = chunk_of(hash, chunks);
                if part.contains(&chunk) {
                    let entries = &mut entries[(chunk - part.start) as usize];
                    if entries.len() < ENTRIES {
                        entries.push(entry(hash, address));
                    } else {
                        index.surplus.entry(hash).or_default().push(address);
                    }
                }
            })?;
            for mut chunk in entries {
                chunk.resize(ENTRIES, 0);
                chunk.iter().try_for_each(|entry| file.write_all(&entry.to_le_bytes()))?;
            }
        }
        // Direct reads need whole pages.
        file.write_all(&vec![0; PAGE - (chunks as usize * CHUNK) % PAGE])?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        let set = self.chunks.set((open(&path)?, index));
        set.map_err(|_| "the index is made by one thread")?;
        Ok(())
    }

    /// Finishes the log, and counts its records.
    fn finish(&self) -> Result<u64> {
        self.tail.lock().turn(&self.records)?;
        self.records.sync_all()?;
        let mut records = 0;
        self.each(|_, _| records += 1)?;
        Ok(records)
    }

    /// Passes the key and the address of every record to `each`.
    fn each(&self, mut each: impl FnMut(&[u8], u64)) -> Result<()> {
        let (pages, mut window) = (self.tail.lock().pages, Box::new(Window([0; WINDOW * PAGE])));
        for first in (0..pages).step_by(WINDOW) {
            let read = &mut window.0[..WINDOW.min((pages - first) as usize) * PAGE];
            self.records.read_exact_at(read, first * PAGE as u64)?;
            for (number, page) in (first..).zip(read.chunks_exact(PAGE)) {
                let mut at = 0;
                while let Some((key, value)) = record(page, at) {
                    each(key, number * PAGE as u64 + at as u64);
                    at += 4 + key.len() + value.len();
                }
            }
        }
        Ok(())
    }

    /// Reads the record at an address, if it has this key.
    fn read(&self, address: u64, key: &[u8], page: &mut Page, visit: &mut Visit<'_>) -> Result<bool> {
        self.records.read_exact_at(&mut page.0, address / PAGE as u64 * PAGE as u64)?;
        let found = record(&page.0, address as usize % PAGE).filter(|(its, _)| *its == key);
        found.into_iter().for_each(|(_, value)| visit(Some(value)));
        Ok(found.is_some())
    }
}

impl Tail {
    /// Writes the page, unless it is empty.
    fn turn(&mut self, file: &File) -> Result<()> {
        if self.filled > 0 {
            file.write_all_at(&self.page.0, self.pages * PAGE as u64)?;
            self.page.0.fill(0);
            (self.filled, self.pages) = (0, self.pages + 1);
        }
        Ok(())
    }
}

fn chunk_of(hash: u64, chunks: u64) -> u64 {
    ((u128::from(hash) * u128::from(chunks)) >> 64) as u64
}

/// The key and the value of the record at `at` in a page, if there is one.
fn record(page: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    let [a, b, c, d] = *page.get(at..)?.first_chunk()?;
    let [key, value] = [[a, b], [c, d]].map(|length| usize::from(u16::from_le_bytes(length)));
    let record = page.get(at + 4..at + 4 + key + value).filter(|_| key > 0)?;
    Some(record.split_at(key))
}

impl Store for F2Cold {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let (file, index) = self.chunks.get().ok_or("nothing is read before all is loaded")?;
        let (hash, mut page) = (hash(key), Page::new());
        let chunk = index.chunks[chunk_of(hash, index.chunks.len() as u64) as usize];
        file.read_exact_at(&mut page.0, chunk / PAGE as u64 * PAGE as u64)?;
        let (entries, _) = page.0[chunk as usize % PAGE..][..CHUNK].as_chunks();
        let entries: Vec<u64> = entries.iter().map(|entry| u64::from_le_bytes(*entry)).collect();
        let tagged = entries.into_iter().filter(|of| *of != 0 && of >> ADDRESS == entry(hash, 0) >> ADDRESS);
        let addresses = tagged.map(|entry| (entry & ((1 << ADDRESS) - 1)) - 1);
        for address in addresses.chain(index.surplus.get(&hash).into_iter().flatten().copied()) {
            if self.read(address, key, &mut page, visit)? {
                return Ok(());
            }
        }
        visit(None);
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.chunks.get().is_some() {
            return Err("the cold tier of F2 is loaded once here, and only read then".into());
        }
        let bytes = 4 + key.len() + value.len();
        if bytes > PAGE {
            return Err("a record must fit into a page".into());
        }
        let mut tail = self.tail.lock();
        if tail.filled + bytes > PAGE {
            tail.turn(&self.records)?;
        }
        let at = tail.filled;
        let lengths = [key.len() as u16, value.len() as u16].map(u16::to_le_bytes).concat();
        tail.page.0[at..at + bytes].copy_from_slice(&[&lengths, key, value].concat());
        tail.filled += bytes;
        Ok(())
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.insert(key, value))
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut VisitRecord<'_>) -> Result<()> {
        Err("the cold tier of F2 keeps its records in no order of keys, so it has no scans".into())
    }

    fn update(&self, _: &[u8], _: &mut Change<'_>) -> Result<()> {
        Err("the cold tier of F2 is loaded once here, and only read then".into())
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.index()
    }

    fn stats(&self) -> Stats {
        let of = |index: &Index| {
            8 * index.chunks.len() + index.surplus.values().map(|all| 16 + 8 * all.len()).sum::<usize>()
        };
        Stats { index_bytes: self.chunks.get().map_or(0, |(_, index)| of(index) as u64), ..Stats::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.chunks.get().is_none() { self.finish().map(drop) } else { Ok(()) }
    }
}
