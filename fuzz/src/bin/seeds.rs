//! Writes the seeds of all targets to `corpus/`: pieces of small databases, which are the formats as the product writes
//! them.

use std::{fs, io, path::Path};

use ecotone::internal::substrate::{storage::FileId, table::FileRef};
use ecotone_adaptive::{AdaptiveOptions, blob::Blob};
use ecotone_fuzz::{ENGINES, files};
use ecotone_hash::{
    cold::{HashRange, RunKind, RunWriter},
    log::Address,
};
use ecotone_lsm::{
    LsmOptions, blob,
    manifest::{LevelManifest, PagedRangeEdit, PagedRanges, RangeEditKind, RunId, VersionEdit},
    table::{Compression, IndexKind, IndexOptions, Options, TableWriter},
};
use ecotone_testkit::{
    fuzz::{NAME, hash},
    sim::SimStorage,
};

fn main() -> io::Result<()> {
    for (number, engine) in (0_u8..).zip(ENGINES) {
        files(number.into()).iter().try_for_each(|(file, bytes)| piece(*file, &format!("{engine}.{file}"), bytes))?;
        // Twice the number of the database, and one more where checksums are put right, then edits.
        for target in ["image", "repair"] {
            save(target, &format!("{engine}-plain"), &[2 * number, 0, 1, 5, 0, 4, 1, 2, 3, 4])?;
            let steps = [2 * number + 1, 3, 1, 5, 0, 4, 1, 2, 3, 4, 4, 9, 40, 0, 2, 1, 0];
            save(target, &format!("{engine}-sealed"), &steps)?;
        }
    }
    runs()?;
    tables()?;
    structures()?;
    hash_structures()?;
    hot_log()?;
    save("codec", "numbers", &[0, 1, 2, 3, 4, 5, 6, 7, 0x80, 1, 0xff, 0xff, 3, 9, 8, 7])?;
    // No key; one page, a page with an overflow page, two pages that a directory finds.
    save("segment", "kinds", &[0, 1, 5, 0, 0, 0, 2, 6, 0, 0, 0, 7, 0, 0, 0, 4, 8, 0, 0, 0, 2, 0, 1, b'k'])
}

/// What a file of a database has for the targets that read its kind. Runs, tables and segments of a hot log have seeds
/// of their own.
fn piece(file: FileId, name: &str, bytes: &[u8]) -> io::Result<()> {
    match file {
        FileId::Manifest(1) => save("manifest", name, bytes),
        FileId::Double(_) => save("double_write", name, bytes.get(..16 << 10).unwrap_or(bytes)),
        FileId::Log(_) => log(name, bytes),
        FileId::Pages(_) => pages(name, bytes),
        _ => Ok(()),
    }
}

fn save(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

/// A delta and one of its blocks.
fn runs() -> io::Result<()> {
    let disk = SimStorage::new(1);
    let mut keys: Vec<_> = (0..40_u32).map(|key| (hash(&key.to_be_bytes()), key.to_be_bytes())).collect();
    keys.sort_unstable();
    let kind = RunKind::Delta { from: 4096, until: 8192 };
    let environment = disk.environment(NAME.database, 4 << 20);
    let mut writer = RunWriter::create(&environment, NAME, kind, 1024).map_err(io::Error::other)?;
    for (number, (hash, key)) in (0..).zip(keys) {
        let value = (number % 9 != 0).then(|| key.repeat(number % 20));
        writer.push(hash, &key, value.as_deref()).map_err(io::Error::other)?;
    }
    writer.finish().map_err(io::Error::other)?;
    let bytes = disk.files().remove(&NAME.file()).unwrap_or_default();
    let pages = (bytes.len() / 4096).saturating_sub(2) as u8;
    // The first byte says how many pages, and 0 a block.
    save("run", "delta", &[&[pages + 8], &bytes[..]].concat())?;
    save("run", "block", &[&[0], bytes.get(4096..5120).unwrap_or_default()].concat())
}

/// A page of two records, a tombstone and one that was given up, and a segment of such pages.
fn hot_log() -> io::Result<()> {
    let record = |number: u8, kind: u64, value: usize| {
        let words = (1 + value).div_ceil(8) as u64;
        let second = (value as u64) << 10 | kind << 21;
        let record = [&(words << 41 | 1).to_le_bytes()[..], &second.to_le_bytes(), &vec![number; 1 + value]].concat();
        record.into_iter().chain([0; 7]).take(16 + words as usize * 8).collect::<Vec<u8>>()
    };
    let records = [record(1, 1, 100), record(2, 2, 0), record(3, 0, 20), record(4, 1, 7)].concat();
    let page = |number: u64| {
        let used = (16 + records.len() as u16).to_le_bytes();
        let mut page = [&[0, 0, 0, 0, 1, 0, used[0], used[1]][..], &(number * 4096).to_le_bytes(), &records].concat();
        page.resize(4096, 0);
        page
    };
    let mut header = vec![0; 4096];
    header[64..72].copy_from_slice(&4096_u64.to_le_bytes());
    header[72..80].copy_from_slice(&(1_u64 << 20).to_le_bytes());
    save("hot_log", "page", &[&[0][..], &page(1)].concat())?;
    // The first byte says how many pages, and 0 a page.
    save("hot_log", "segment", &[vec![8 + 1], header, page(1), page(2)].concat())
}

/// A table with each kind of index, and a block of one.
fn tables() -> io::Result<()> {
    let kinds = IndexKind::ALL.map(|kind| (kind, Compression::None));
    for (kind, compression) in kinds.into_iter().chain([(IndexKind::Linear, Compression::Lz4)]) {
        let disk = SimStorage::new(1);
        let options = Options { block: 4096, filter_bits: 10, compression, index: IndexOptions::of(kind, 2000) };
        let environment = disk.environment(NAME.database, 4 << 20);
        let mut writer = TableWriter::create(&environment, NAME, options).map_err(io::Error::other)?;
        for number in 0..200_u32 {
            let key = [&number.to_be_bytes()[..], &[b'k'; 60][..number as usize % 60]].concat();
            let value = (!number.is_multiple_of(9)).then_some(&key[..]);
            writer.push(hash(&key), &key, value).map_err(io::Error::other)?;
        }
        writer.finish((1, 2)).map_err(io::Error::other)?;
        let bytes = disk.files().remove(&NAME.file()).unwrap_or_default();
        let pages = (bytes.len() / 4096).saturating_sub(3) as u8;
        save("table", &format!("{kind:?}-{}", compression.name()), &[&[pages + 16], &bytes[..]].concat())?;
        let block = bytes.get(4096..8192).unwrap_or_default();
        save("table", &format!("block-{}", compression.name()), &[&[0], block].concat())?;
    }
    Ok(())
}

/// An empty root, a flush, and a compaction of what it made; in an adaptive keyspace a range that is covered there, and
/// one that is opened.
fn structures() -> io::Result<()> {
    let (run, level) = (RunId::L0(0), RunId::LAST);
    let [a, b, c] = [1, 2, 300].map(|number| FileRef { number, birth: 1 << 32 | u64::from(number) });
    let flush = VersionEdit { added: vec![(run, a), (run, b)], ..VersionEdit::default() };
    let compaction = VersionEdit { deleted: vec![a, b], added: vec![(level, b), (level, c)], ..VersionEdit::default() };
    let edit = |lower: &[u8], kind| PagedRangeEdit { lower: lower.to_vec(), upper: b"c".to_vec(), kind };
    let paged_ranges = vec![edit(b"a", RangeEditKind::Add(level)), edit(b"b", RangeEditKind::Reactivate)];
    let cover = VersionEdit { paged_ranges, ..VersionEdit::default() };
    let lsm = blob::encode(LsmOptions::default(), &LevelManifest::default());
    save("structure", "lsm", &[&lsm, &flush.encode(), &compaction.encode()].map(behind_length).concat())?;
    let root =
        Blob { options: AdaptiveOptions::default(), paged_ranges: PagedRanges::default(), lsm, tree: Vec::new() };
    let records = [flush, compaction, cover].map(|change| [&[1], &*change.encode()].concat());
    let parts: Vec<_> = [root.encode()].iter().chain(&records).map(behind_length).collect();
    save("structure", "adaptive", &parts.concat())
}

fn behind_length(part: impl AsRef<[u8]>) -> Vec<u8> {
    let part = part.as_ref();
    [&(part.len() as u16).to_le_bytes()[..], part].concat()
}

/// The root of an empty hash keyspace, a segment, a compaction of a part of it, and a merge of its delta into the base.
fn hash_structures() -> io::Result<()> {
    use ecotone_hash::structure::{HashManifest, LogFile, ManifestEdit, PartitionEntry};
    let [log, delta, base] = [1, 2, 300].map(|number| FileRef { number, birth: 1 << 32 | u64::from(number) });
    let part = |base| PartitionEntry { hash_range: HashRange::ALL, base };
    let page = |number: u64| Address::new(number * 4096);
    let changes = [
        ManifestEdit::Segment(LogFile { file: log, from: Address::FIRST, bytes: 1 << 20 }),
        ManifestEdit::Compact { added: Some(delta), begin: page(20), durable: page(30), index_bits: 10 },
        ManifestEdit::MergeIntoBase { deleted: part(None), added: vec![part(Some(base))], merged_until: page(20) },
    ];
    let root = ecotone_hash::blob::encode(ecotone_hash::HashOptions::default(), &HashManifest::new(10));
    let parts = [root].into_iter().chain(changes.iter().map(ManifestEdit::encode));
    let parts: Vec<_> = parts.map(|part| behind_length(&part)).collect();
    save("structure", "hash", &parts.concat())
}

/// The header, and the bodies of the first records behind their kinds.
fn log(name: &str, bytes: &[u8]) -> io::Result<()> {
    save("log", &format!("{name}.header"), &[&[0], bytes.get(..512).unwrap_or_default()].concat())?;
    let mut rest = bytes.get(4096..).unwrap_or_default();
    for record in 0..20 {
        let Some((frame, behind)) = rest.split_first_chunk::<9>() else { break };
        let [a, b, c, d, .., kind] = *frame;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some((body, next)) = behind.split_at_checked(length).filter(|_| length > 0) else { break };
        save("log", &format!("{name}.{record}"), &[&[kind], body].concat())?;
        rest = next;
    }
    Ok(())
}

fn pages(name: &str, bytes: &[u8]) -> io::Result<()> {
    let used = bytes.chunks(4096).enumerate().skip(1).filter(|(_, page)| page.iter().any(|&byte| byte != 0));
    used.into_iter().try_for_each(|(number, page)| save("page", &format!("{name}.{number}"), page))
}
