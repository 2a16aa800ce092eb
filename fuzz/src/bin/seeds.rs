//! Writes the seeds of all targets to `corpus/`: pieces of a small database, which are the formats as the product writes them.

use std::{fs, io, path::Path, sync::Arc};

use ecotone::internal::substrate::storage::FileId;
use ecotone_engines::hash::cold::{Name, RunKind, RunWriter};
use ecotone_fuzz::files;
use ecotone_substrate::{environment::Environment, health::Health, memory::Memory, scheduler::Scheduler};
use ecotone_sys::checksum::crc32c;
use ecotone_testkit::sim::SimStorage;

fn main() -> io::Result<()> {
    for (file, bytes) in files() {
        match file {
            FileId::Manifest(_) => save("manifest", &file.to_string(), &bytes)?,
            FileId::Double(_) => save("double_write", &file.to_string(), bytes.get(..16 << 10).unwrap_or(&bytes))?,
            FileId::Log(_) => log(file, &bytes)?,
            _ => pages(file, &bytes)?,
        }
    }
    runs()?;
    save("codec", "numbers", &[0, 1, 2, 3, 4, 5, 6, 7, 0x80, 1, 0xff, 0xff, 3, 9, 8, 7])?;
    // No key; one page, a page with an overflow page, two pages that a directory finds.
    save("segment", "kinds", &[0, 1, 5, 0, 0, 0, 2, 6, 0, 0, 0, 7, 0, 0, 0, 4, 8, 0, 0, 0, 2, 0, 1, b'k'])?;
    // A byte that says whether checksums are put right, then edits.
    ["image", "repair"].iter().try_for_each(|target| {
        save(target, "plain", &[0, 0, 1, 5, 0, 4, 1, 2, 3, 4])?;
        save(target, "sealed", &[1, 3, 1, 5, 0, 4, 1, 2, 3, 4, 4, 9, 40, 0, 2, 1, 0])
    })
}

fn save(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

/// A delta and one of its blocks, under the hash of the target.
fn runs() -> io::Result<()> {
    let disk = SimStorage::new(1);
    let health: Arc<Health> = Arc::default();
    let (storage, scheduler) = (Arc::new(disk.clone()), Scheduler::manual(health.clone()));
    let environment = Environment { database: 7, storage, memory: Memory::new(4 << 20), scheduler, health };
    let hash = |key: &[u8]| u64::from(crc32c(0, key)) << 32 | u64::from(crc32c(1, key));
    let mut keys: Vec<_> = (0..40_u32).map(|key| (hash(&key.to_be_bytes()), key.to_be_bytes())).collect();
    keys.sort_unstable();
    let name = Name { database: 7, keyspace: 3, number: 9, birth: 41 };
    let kind = RunKind::Delta { from: 4096, until: 8192 };
    let mut writer = RunWriter::create(&environment, name, kind, 1024).map_err(io::Error::other)?;
    for (number, (hash, key)) in (0..).zip(keys) {
        let value = (number % 9 != 0).then(|| key.repeat(number % 20));
        writer.push(hash, &key, value.as_deref()).map_err(io::Error::other)?;
    }
    writer.finish().map_err(io::Error::other)?;
    let bytes = disk.files().remove(&name.file()).unwrap_or_default();
    let pages = (bytes.len() / 4096).saturating_sub(2) as u8;
    // The first byte says how many pages, and 0 a block.
    save("run", "delta", &[&[pages + 8], &bytes[..]].concat())?;
    save("run", "block", &[&[0], bytes.get(4096..5120).unwrap_or_default()].concat())
}

/// The header, and the bodies of the first records behind their kinds.
fn log(file: FileId, bytes: &[u8]) -> io::Result<()> {
    save("log", &format!("{file}.header"), &[&[0], bytes.get(..512).unwrap_or_default()].concat())?;
    let mut rest = bytes.get(4096..).unwrap_or_default();
    for record in 0..20 {
        let Some((frame, behind)) = rest.split_first_chunk::<9>() else { break };
        let [a, b, c, d, .., kind] = *frame;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some((body, next)) = behind.split_at_checked(length).filter(|_| length > 0) else { break };
        save("log", &format!("{file}.{record}"), &[&[kind], body].concat())?;
        rest = next;
    }
    Ok(())
}

fn pages(file: FileId, bytes: &[u8]) -> io::Result<()> {
    let used = bytes.chunks(4096).enumerate().skip(1).filter(|(_, page)| page.iter().any(|&byte| byte != 0));
    used.into_iter().try_for_each(|(number, page)| save("page", &format!("{file}.{number}"), page))
}
