//! The files of the hot log: each has a stretch of it (`docs/format/hash.md`, "Segment").

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    environment::Environment,
    memory::Component,
    storage::{Access, File},
};
use ecotone_sys::{chunk::Size, primitive::RwLock};

use super::{
    address::{Address, PAGE},
    page::{Page, Place},
};
use crate::hash::header::{self, Identity};

const MAGIC: &[u8; 8] = b"ECOhslog";
/// Bytes of log in a segment: a power of two of these.
const SIZES: RangeInclusive<u64> = 1 << 20..=64 << 20;

/// A stretch of the log, and the file that has what was written of it.
#[derive(Debug)]
pub(crate) struct Segment {
    identity: Identity,
    file: Arc<dyn File>,
    from: Address,
    bytes: u64,
}

impl Segment {
    /// Whether there can be a segment of so many bytes of log from an address on.
    pub(crate) fn is_possible(from: Address, bytes: u64) -> bool {
        let whole = from.in_page() == 0 && bytes.is_power_of_two() && SIZES.contains(&bytes);
        whole && from.get().checked_add(bytes).is_some()
    }

    /// Makes the file, of which nothing is written but its first page. Its name is durable then.
    ///
    /// # Errors
    /// If it cannot be made, or there is no space for all of it. Then there is no file.
    pub(crate) fn create(environment: &Environment, identity: Identity, from: Address, bytes: u64) -> Result<Segment> {
        assert!(Self::is_possible(from, bytes));
        environment.health.check()?;
        let mut page = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        header::encode(MAGIC, identity, &mut page, |w| {
            w.u64(from.get()).u64(bytes);
        });
        let storage = &environment.storage;
        let file = storage.create(identity.file, Access::Direct)?;
        let written = file.preallocate(0, PAGE + bytes).and_then(|()| {
            let written = file.write(&page, 0).and_then(|()| file.sync()).and_then(|()| storage.sync_dir());
            written.map_err(|e| environment.health.poison(e))
        });
        written.inspect_err(|_| {
            // What went wrong first is what the caller needs to know. A file that stays is a stray, which the next opening removes.
            let _ = storage.remove(identity.file);
        })?;
        Ok(Segment { identity, file, from, bytes })
    }

    /// Opens the file of a stretch.
    ///
    /// # Errors
    /// If it is another file, is too short, or cannot be read.
    pub(crate) fn open(environment: &Environment, identity: Identity, from: Address, bytes: u64) -> Result<Segment> {
        let file = environment.storage.open(identity.file, Access::Direct)?;
        let mut page = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        file.read(&mut page, 0)?;
        header::decode(MAGIC, identity, &page, |r| {
            if (r.u64()?, r.u64()?) == (from.get(), bytes) {
                Ok(())
            } else {
                r.fail("the segment has another stretch of the log")
            }
        })?;
        if file.len()? < PAGE + bytes {
            return Err(Error::corruption(identity.file, file.len()?, "the segment ends early"));
        }
        Ok(Segment { identity, file, from, bytes })
    }

    /// Which file of which database it is.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Where its stretch begins.
    pub(crate) fn from(&self) -> Address {
        self.from
    }

    /// Where its stretch ends.
    pub(crate) fn end(&self) -> Address {
        self.from.plus(self.bytes)
    }

    /// Where an address of its stretch is in the file.
    pub(crate) fn offset(&self, address: Address) -> u64 {
        PAGE + (address.get() - self.from.get())
    }

    /// What stands for a page of it in the checksum.
    pub(super) fn place(&self, page: Address) -> Place {
        Place { file: self.identity.file.identity(), birth: self.identity.birth, address: page }
    }

    /// A page of it in the bytes that were read.
    ///
    /// # Errors
    /// If they are not this page.
    pub(crate) fn parse<'a>(&self, page: Address, read: &'a [u8]) -> Result<Page<'a>> {
        Page::parse(read, self.place(page)).map_err(|e| self.damaged(page, e))
    }

    /// Damage in a page.
    pub(crate) fn damaged(&self, page: Address, what: Malformed) -> Error {
        what.at(self.identity.file, self.offset(page))
    }

    fn has(&self, address: Address) -> bool {
        (self.from..self.end()).contains(&address)
    }
}

/// The segments of a log, oldest first. Looked at for a moment only, also under a pin.
#[derive(Debug, Default)]
pub(super) struct Segments {
    list: RwLock<Vec<Arc<Segment>>>,
}

impl Segments {
    /// These, which follow each other.
    pub(super) fn new(list: Vec<Arc<Segment>>) -> Segments {
        assert!(list.windows(2).all(|pair| pair[0].end() <= pair[1].from()));
        Segments { list: RwLock::new(list) }
    }

    /// The one that has an address.
    pub(super) fn find(&self, address: Address) -> Option<Arc<Segment>> {
        let list = self.list.read();
        let behind = list.partition_point(|segment| segment.from() <= address);
        list[..behind].last().filter(|segment| segment.has(address)).cloned()
    }

    /// Those that have something of a stretch.
    pub(super) fn within(&self, from: Address, until: Address) -> Vec<Arc<Segment>> {
        let list = self.list.read();
        list.iter().filter(|segment| segment.from() < until && from < segment.end()).cloned().collect()
    }

    /// One more, behind the others.
    pub(super) fn push(&self, segment: Arc<Segment>) {
        let mut list = self.list.write();
        assert!(list.last().is_none_or(|last| last.end() <= segment.from()), "segments follow each other");
        list.push(segment);
    }

    /// Takes out those that lie wholly below `begin`.
    pub(super) fn truncate(&self, begin: Address) -> Vec<Arc<Segment>> {
        let mut list = self.list.write();
        let gone = list.partition_point(|segment| segment.end() <= begin);
        list.drain(..gone).collect()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.list.read().clone()
    }
}
