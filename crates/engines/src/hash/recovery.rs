//! Opening a keyspace: its segments and runs, and an index over what the segments have (decision 9, "Recovery and the
//! order of deletion").

use std::sync::Arc;

use ecotone_substrate::{Result, environment::Environment, memory::Component, table::Name};
use ecotone_sys::{chunk::Size, epoch::Pin};

use super::{
    Compaction, Hash, Sizes,
    cold::Runs,
    compact::{Compactor, Goals},
    install::Files,
    log::{Address, HotLog, Kind, Link, PAGE, Segment},
    room::{Attempt, Lack},
    structure::{File, LogFile, Structure},
};

/// Eighths of the budget from which on indexes are so large, at an opening, that what is linked is compacted: in an
/// earlier life there may have been more memory, and who compacts needs some too.
const LARGE: usize = 3;

/// Opens the runs that a structure names.
pub(super) fn open_runs(environment: &Environment, structure: &Structure, name: impl Fn(File) -> Name) -> Result<Runs> {
    let deltas: Vec<Name> = structure.deltas.iter().map(|delta| name(delta.file)).collect();
    let partitions = structure.partitions.iter();
    let partitions: Vec<_> = partitions
        .map(|partition| ((partition.part.stretch, partition.part.base.map(&name)), partition.folded.get()))
        .collect();
    Runs::open(environment, &deltas, &partitions)
}

impl Hash {
    /// The keyspace as its files have it. Files that nothing names are removed before.
    pub(super) fn recover(files: &Arc<Files>, sizes: Option<Sizes>, goals: Goals) -> Result<Hash> {
        files.remove_strays()?;
        let structure = files.structure();
        let sizes = Sizes::of(files.environment().memory.budget(), sizes, Some(&structure)).chosen(files.options());
        files.set_index_bits(sizes.bucket_bits as u8);
        let open = |LogFile { file, from, bytes }: &LogFile| {
            Segment::open(files.environment(), files.name_of(*file), *from, *bytes).map(Arc::new)
        };
        let segments: Vec<_> = structure.segments.iter().map(open).collect::<Result<_>>()?;
        let domain = &files.context().shared.domain;
        let log = HotLog::reopen(domain, (structure.begin, structure.durable), segments, sizes.frames);
        let runs = open_runs(files.environment(), &structure, |file| files.name_of(file))?;
        let hash = Hash::over(files, log, runs, sizes)?;
        hash.log.resume(files.environment(), hash.room.first_frame()?)?;
        // Of the two ways of compaction this one needs less memory.
        let goals = Goals { compaction: Compaction::Lookup, ..goals };
        hash.link_all(
            &Compactor { hash: &hash, environment: files.environment(), install: &**files, goals, is_idle: false },
            structure.durable,
        )?;
        Ok(hash)
    }

    /// Links the records of all pages up to a boundary. In each chain the one with the highest address comes first.
    /// While indexes are large, what is linked is compacted, as long as there is space and memory for that.
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
            // Nobody else does it yet, and an index has overflow buckets for so many entries only.
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

    /// Asks for the buckets of all records of a page before it links the first one: these lie all over the index.
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
            if record.kind != Kind::Invalid {
                self.deletes.count(record.kind == Kind::Tombstone);
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
                Err(lack) => self.make_room(lack)?,
            }
        }
    }

    /// Makes a record the first of its chain, of which it has the highest address. Whether the entry could be changed.
    fn try_to_link(&self, hash: u64, address: Address, pin: &Pin<'_>) -> Attempt<bool> {
        let found = self.table.find_or_insert(hash, pin).ok_or(Lack::Bucket)?;
        Ok(found.place.exchange(found.entry, found.entry.with_link(Link::to(address))).is_ok())
    }
}
