//! Recovery of a keyspace: opens its segments and runs, and builds the index over the records in the segments (hash.md,
//! "Recovery").

use std::sync::Arc;

use ecotone_substrate::{Result, environment::Environment, memory::Component, table::FileIdentity};
use ecotone_sys::{chunk::Size, epoch::Pin};

use super::{
    Compaction, Hash, Sizes,
    cold::Runs,
    compact::{CompactionLimits, Compactor},
    install::Files,
    log::{Address, HeaderKind, HotLog, Link, PAGE, Segment},
    reservations::{NeedsSpace, Retryable},
    structure::{FileRef, HashManifest, LogFile},
};

/// Eighths of the memory budget. Once indexes use this much during an opening, linked records are compacted: an earlier
/// session may have had more memory, and compaction needs some too.
const LARGE: usize = 3;

/// Opens the runs that a structure names.
pub(super) fn open_runs(
    environment: &Environment,
    structure: &HashManifest,
    name: impl Fn(FileRef) -> FileIdentity,
) -> Result<Runs> {
    let deltas: Vec<FileIdentity> = structure.deltas.iter().map(|delta| name(delta.file)).collect();
    let partitions = structure.partitions.iter();
    let partitions: Vec<_> = partitions
        .map(|partition| ((partition.part.stretch, partition.part.base.map(&name)), partition.merged_until.get()))
        .collect();
    Runs::open(environment, &deltas, &partitions)
}

impl Hash {
    /// Opens the keyspace from its files. Orphans are removed first.
    pub(super) fn recover(files: &Arc<Files>, sizes: Option<Sizes>, limits: CompactionLimits) -> Result<Hash> {
        files.remove_orphans()?;
        let structure = files.structure();
        let sizes = Sizes::of(files.environment().memory.budget(), sizes, Some(&structure)).chosen(files.options());
        files.set_index_bits(sizes.bucket_bits as u8);
        let open = |LogFile { file, from, bytes }: &LogFile| {
            Segment::open(files.environment(), files.file_name(*file), *from, *bytes).map(Arc::new)
        };
        let segments: Vec<_> = structure.segments.iter().map(open).collect::<Result<_>>()?;
        let domain = &files.context().shared.domain;
        let log = HotLog::reopen(domain, (structure.begin, structure.durable), segments, sizes.frames);
        let runs = open_runs(files.environment(), &structure, |file| files.file_name(file))?;
        let hash = Hash::over(files, log, runs, sizes)?;
        hash.log.resume(files.environment(), hash.reservations.first_frame()?)?;
        // Compaction by lookup needs less memory than by scan.
        let limits = CompactionLimits { compaction: Compaction::Lookup, ..limits };
        hash.link_all(
            &Compactor { hash: &hash, environment: files.environment(), install: &**files, limits, is_idle: false },
            structure.durable,
        )?;
        Ok(hash)
    }

    /// Links the records of all pages up to a boundary. The record with the highest address comes first in its chain.
    /// While indexes are large, linked records are compacted, as long as there is space and memory for that.
    fn link_all(&self, compactor: &Compactor<'_>, until: Address) -> Result<()> {
        let memory = &compactor.environment.memory;
        let mut window = memory.lease_essential(Component::Frames, Size::Slab)?;
        let (mut at, mut is_short, mut records) = (self.log.bounds().begin(), false, Vec::new());
        while at < until {
            let segment = self.log.segment(at)?;
            let end = until.min(segment.end()).min(at.plus(window.len() as u64));
            let read = &mut window[..(end.get() - at.get()) as usize];
            segment.file().read(read, segment.offset(at))?;
            for (number, page) in (0..).zip(read.chunks(PAGE as usize)) {
                self.link_page(&segment, at.plus(number * PAGE), page, &mut records)?;
            }
            // No other thread grows the index yet, and it has overflow buckets for a limited number of entries only.
            self.grow_index();
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
        let pin = self.domain.pin();
        for record in segment.parse(page, read)?.records() {
            let (address, record) = record.map_err(|malformed| segment.damaged(page, malformed))?;
            if record.kind != HeaderKind::Invalid {
                self.deletes.count(record.kind == HeaderKind::Tombstone);
                let hash = self.key(record.key).hash;
                self.table.prefetch(hash, &pin);
                records.push((hash, address));
            }
        }
        drop(pin);
        records.iter().try_for_each(|(hash, address)| self.link(*hash, *address))
    }

    fn link(&self, hash: u64, address: Address) -> Result<()> {
        loop {
            let linked = self.try_to_link(hash, address, &self.domain.pin());
            match linked {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(lack) => self.satisfy(lack)?,
            }
        }
    }

    /// Makes a record the head of its chain, in which it has the highest address. Returns whether the entry could be
    /// changed.
    fn try_to_link(&self, hash: u64, address: Address, pin: &Pin<'_>) -> Retryable<bool> {
        let found = self.table.find_or_insert(hash, pin).ok_or(NeedsSpace::Bucket)?;
        Ok(found.place.exchange(found.entry, found.entry.with_link(Link::to(address))).is_ok())
    }
}
