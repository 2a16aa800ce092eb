//! Recovery of a keyspace: opens its segments and runs, and builds the index over the records in the segments (hash.md,
//! "Recovery").

use std::sync::Arc;

use ecotone_substrate::{Result, environment::Environment, memory::Component, table::FileIdentity};
use ecotone_sys::chunk::Size;

use super::{
    Compaction, Hash, Sizes,
    cold::Runs,
    compact::{CompactionLimits, Compactor},
    install::Files,
    log::{Address, HeaderKind, HotLog, PAGE, Segment},
    structure::{FileRef, HashManifest, LogFile},
};

/// Eighths of the memory budget. Once indexes use this much during an opening, linked records are compacted: an earlier
/// session may have had more memory, and compaction needs some too.
const LARGE: usize = 3;

/// Opens the runs that a structure names.
pub(super) fn open_runs(
    environment: &Environment,
    manifest: &HashManifest,
    name: impl Fn(FileRef) -> FileIdentity,
) -> Result<Runs> {
    let deltas: Vec<FileIdentity> = manifest.deltas.iter().map(|delta| name(delta.file)).collect();
    let partitions = manifest.partitions.iter();
    let partitions: Vec<_> = partitions
        .map(|partition| ((partition.part.hash_range, partition.part.base.map(&name)), partition.merged_until.get()))
        .collect();
    Runs::open(environment, &deltas, &partitions)
}

impl Hash {
    /// Opens the keyspace from its files. Orphans are removed first.
    pub(super) fn recover(files: &Arc<Files>, sizes: Option<Sizes>, limits: CompactionLimits) -> Result<Hash> {
        files.remove_orphans()?;
        let manifest = files.manifest();
        let sizes = Sizes::of(files.environment().memory.budget(), sizes, Some(&manifest)).chosen(files.options());
        files.set_index_bits(sizes.bucket_bits as u8);
        let open = |LogFile { file, from, bytes }: &LogFile| {
            Segment::open(files.environment(), files.file_name(*file), *from, *bytes).map(Arc::new)
        };
        let segments: Vec<_> = manifest.segments.iter().map(open).collect::<Result<_>>()?;
        let domain = &files.context().shared.domain;
        let log = HotLog::reopen(domain, (manifest.begin, manifest.durable), segments, sizes.frames);
        let runs = open_runs(files.environment(), &manifest, |file| files.file_name(file))?;
        let hash = Hash::over(files, log, runs, sizes)?;
        hash.chains.log.resume(files.environment(), hash.reservations.first_frame()?)?;
        // Compaction by lookup needs less memory than by scan.
        let limits = CompactionLimits { compaction: Compaction::Lookup, ..limits };
        hash.link_all(
            &Compactor { hash: &hash, environment: files.environment(), install: &**files, limits, is_idle: false },
            manifest.durable,
        )?;
        Ok(hash)
    }

    /// Links the records of all pages up to a boundary. The record with the highest address comes first in its chain.
    /// While indexes are large, linked records are compacted, as long as there is space and memory for that.
    fn link_all(&self, compactor: &Compactor<'_>, until: Address) -> Result<()> {
        let memory = &compactor.environment.memory;
        let mut window = memory.lease_essential(Component::Frames, Size::Slab)?;
        let (mut at, mut is_short, mut records) = (self.chains.log.bounds().begin(), false, Vec::new());
        while at < until {
            let segment = self.chains.log.segment(at)?;
            let end = until.min(segment.end()).min(at.plus(window.len() as u64));
            let read = &mut window[..(end.get() - at.get()) as usize];
            segment.file().read(read, segment.offset(at))?;
            for (number, page) in (0..).zip(read.chunks(PAGE as usize)) {
                self.link_page(&segment, at.plus(number * PAGE), page, &mut records)?;
            }
            // No other thread grows the index yet, and it has overflow buckets for a limited number of entries only.
            self.reservations.grow_index(&self.chains);
            at = end;
            if !is_short && memory.used(&[Component::HashIndex]) >= memory.budget() / 8 * LARGE {
                match compactor.compact_below(at) {
                    Err(error) if error.is_shortage() => is_short = true,
                    compacted => compacted?,
                }
            }
        }
        Ok(())
    }

    /// Links the records of a page. It prefetches the buckets of all records before it links the first one, since they
    /// are spread over the index.
    fn link_page(
        &self,
        segment: &Segment,
        page: Address,
        read: &[u8],
        records: &mut Vec<(u64, Address)>,
    ) -> Result<()> {
        records.clear();
        let pin = self.chains.domain.pin();
        for record in segment.parse(page, read)?.records() {
            let (address, record) = record.map_err(|malformed| segment.damaged(page, malformed))?;
            if record.kind != HeaderKind::Invalid {
                self.deletes.count(record.kind == HeaderKind::Tombstone);
                let hash = self.chains.key(record.key).hash;
                self.chains.index.prefetch(hash, &pin);
                records.push((hash, address));
            }
        }
        drop(pin);
        records.iter().try_for_each(|(hash, address)| self.link(*hash, *address))
    }

    fn link(&self, hash: u64, address: Address) -> Result<()> {
        loop {
            let linked = self.chains.try_to_link(hash, address, &self.chains.domain.pin());
            match linked {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(lack) => self.reservations.satisfy(&self.chains, lack)?,
            }
        }
    }
}
