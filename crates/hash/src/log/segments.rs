//! The segments of the hot log: files that each hold a range of it (`docs/format/hash.md`, "Segment").

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    environment::Environment,
    memory::Component,
    storage::{Access, File, FileId},
    table::{FileIdentity, FileRole, Header},
};
use ecotone_sys::{chunk::Size, primitive::RwLock};

use super::{
    address::{Address, PAGE},
    page::{Page, PageLocation},
};

const FORMAT: Header = Header { role: FileRole::Segment, magic: b"ECOhslog", version: 1 };
/// Bytes of log in a segment: a power of two within this range.
pub const SEGMENT_BYTES: RangeInclusive<u64> = 256 << 10..=64 << 20;

/// A range of the log, and the file that holds its written part.
#[derive(Debug)]
pub struct Segment {
    name: FileIdentity,
    file: Arc<dyn File>,
    from: Address,
    bytes: u64,
}

impl Segment {
    /// Whether a segment can hold `bytes` bytes of log from this address on.
    pub(crate) fn is_possible(from: Address, bytes: u64) -> bool {
        let whole = from.in_page() == 0 && bytes.is_power_of_two() && SEGMENT_BYTES.contains(&bytes);
        whole && from.get().checked_add(bytes).is_some()
    }

    /// Makes the file and writes its first page. The file's name is durable afterwards.
    ///
    /// # Errors
    /// If it cannot be made, or there is no space for all of it. Then there is no file.
    pub(crate) fn create(environment: &Environment, name: FileIdentity, from: Address, bytes: u64) -> Result<Segment> {
        assert!(Self::is_possible(from, bytes));
        environment.health.check()?;
        let mut page = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        let mut header = FORMAT.begin(name);
        header.u64(from.get()).u64(bytes);
        FORMAT.seal(name, &header, &mut page);
        let (storage, id) = (&environment.storage, FileRole::Segment.file(name));
        let file = storage.create(id, Access::Direct)?;
        let written = file.preallocate(0, PAGE + bytes).and_then(|()| {
            let written = file.write(&page, 0).and_then(|()| file.sync()).and_then(|()| storage.sync_dir());
            written.map_err(|e| environment.health.poison(e))
        });
        written.inspect_err(|_| {
            // The caller needs the first error. A file that stays is an orphan, which the next opening removes.
            let _ = storage.remove(id);
        })?;
        Ok(Segment { name, file, from, bytes })
    }

    /// Opens the file of a range.
    ///
    /// # Errors
    /// If it is another file, is too short, or cannot be read.
    pub fn open(environment: &Environment, name: FileIdentity, from: Address, bytes: u64) -> Result<Segment> {
        let (file, ()) = FORMAT.open(environment, name, |r| {
            if (r.u64()?, r.u64()?) == (from.get(), bytes) {
                Ok(())
            } else {
                Err(Malformed::new(64, "the segment has another stretch of the log"))
            }
        })?;
        if file.len()? < PAGE + bytes {
            return Err(Error::corruption(file.id(), file.len()?, "the segment ends early"));
        }
        Ok(Segment { name, file, from, bytes })
    }

    /// Identity of the file and its database.
    #[cfg(test)]
    pub(crate) fn name(&self) -> FileIdentity {
        self.name
    }

    /// The file's id in the storage.
    pub(crate) fn id(&self) -> FileId {
        FileRole::Segment.file(self.name)
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Start of the range.
    pub(crate) fn from(&self) -> Address {
        self.from
    }

    /// End of the range.
    pub(crate) fn end(&self) -> Address {
        self.from.plus(self.bytes)
    }

    /// Offset in the file of an address in the range.
    pub(crate) fn offset(&self, address: Address) -> u64 {
        PAGE + (address.get() - self.from.get())
    }

    /// Location of a page, which its checksum covers.
    pub(super) fn place(&self, page: Address) -> PageLocation {
        PageLocation { file: self.id().identity(), birth: self.name.birth, address: page }
    }

    /// Parses a page from the bytes that were read.
    ///
    /// # Errors
    /// If they are not this page.
    pub fn parse<'a>(&self, page: Address, read: &'a [u8]) -> Result<Page<'a>> {
        Page::parse(read, self.place(page)).map_err(|e| self.damaged(page, e))
    }

    /// The error for a damaged page.
    pub(crate) fn damaged(&self, page: Address, what: Malformed) -> Error {
        what.at(self.id(), self.offset(page))
    }

    fn has(&self, address: Address) -> bool {
        (self.from..self.end()).contains(&address)
    }
}

/// The segments of a log, oldest first. Its lock is held for a moment only, also under a pin.
#[derive(Debug, Default)]
pub(super) struct Segments {
    list: RwLock<Vec<Arc<Segment>>>,
}

impl Segments {
    /// A list of adjacent segments.
    pub(super) fn new(list: Vec<Arc<Segment>>) -> Segments {
        assert!(list.windows(2).all(|pair| pair[0].end() <= pair[1].from()));
        Segments { list: RwLock::new(list) }
    }

    /// The segment that has an address.
    pub(super) fn find(&self, address: Address) -> Option<Arc<Segment>> {
        let list = self.list.read();
        let behind = list.partition_point(|segment| segment.from() <= address);
        list[..behind].last().filter(|segment| segment.has(address)).cloned()
    }

    /// Segments that overlap a range.
    pub(super) fn within(&self, from: Address, until: Address) -> Vec<Arc<Segment>> {
        let list = self.list.read();
        list.iter().filter(|segment| segment.from() < until && from < segment.end()).cloned().collect()
    }

    /// Adds a segment behind the others.
    pub(super) fn push(&self, segment: Arc<Segment>) {
        let mut list = self.list.write();
        assert!(list.last().is_none_or(|last| last.end() <= segment.from()), "segments follow each other");
        list.push(segment);
    }

    /// Removes and returns the segments wholly below `begin`.
    pub(super) fn truncate(&self, begin: Address) -> Vec<Arc<Segment>> {
        let mut list = self.list.write();
        let gone = list.partition_point(|segment| segment.end() <= begin);
        list.drain(..gone).collect()
    }

    /// All of them.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.list.read().clone()
    }
}
