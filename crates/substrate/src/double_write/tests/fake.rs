//! A disk in memory that can stop at any request and lose any unsynced sector.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::{Error, Result, limits::SECTOR, storage::*};

/// Events of the disk, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Write(FileId, u64),
    Sync(FileId),
    SyncDir,
}

#[derive(Debug, Default)]
struct Contents {
    current: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<FileId, Contents>,
    events: Vec<Event>,
    /// Events from this one on fail.
    stop_at: Option<usize>,
    /// Preallocation fails for lack of space.
    full: bool,
}

#[derive(Debug)]
pub(super) struct Fake {
    state: Mutex<State>,
    me: Weak<Fake>,
}

impl Fake {
    pub(super) fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Fake { state: Mutex::default(), me: me.clone() })
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.state.lock().events.clone()
    }

    /// Lets `count` more events happen.
    pub(super) fn stop_after(&self, count: Option<usize>) {
        let mut state = self.state.lock();
        state.stop_at = count.map(|count| state.events.len() + count);
    }

    pub(super) fn fill_up(&self) {
        self.state.lock().full = true;
    }

    /// Power fails: of all unsynced sectors, only those that `keeps` chooses survive. The disk works again.
    pub(super) fn crash(&self, mut keeps: impl FnMut() -> bool) {
        let mut state = self.state.lock();
        state.stop_at = None;
        for contents in state.files.values_mut() {
            for (at, sector) in std::mem::take(&mut contents.unsynced) {
                if keeps() {
                    contents.synced[at..at + SECTOR].copy_from_slice(&sector);
                }
            }
            contents.current = contents.synced.clone();
        }
    }

    fn event(&self, event: Event) -> Result<()> {
        let mut state = self.state.lock();
        if state.stop_at.is_some_and(|stop| state.events.len() >= stop) {
            return Err(Error::io("write", "fake", io::Error::other("the disk stopped")));
        }
        state.events.push(event);
        Ok(())
    }

    fn handle(&self, id: FileId) -> Arc<dyn File> {
        Arc::new(FakeFile { id, disk: self.me.upgrade().expect("the disk lives as long as its files") })
    }
}

impl Storage for Fake {
    fn list(&self) -> Result<Vec<FileId>> {
        Ok(self.state.lock().files.keys().copied().collect())
    }

    fn create(&self, id: FileId, _: Access) -> Result<Arc<dyn File>> {
        assert!(self.state.lock().files.insert(id, Contents::default()).is_none(), "{id} exists");
        Ok(self.handle(id))
    }

    fn open(&self, id: FileId, _: Access) -> Result<Arc<dyn File>> {
        assert!(self.state.lock().files.contains_key(&id), "{id} does not exist");
        Ok(self.handle(id))
    }

    fn remove(&self, id: FileId) -> Result<()> {
        self.state.lock().files.remove(&id);
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        self.event(Event::SyncDir)
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        Ok(Box::new(FakeQueue::default()))
    }

    fn free_space(&self) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn counters_of(&self, _: FileKind) -> Counters {
        Counters::default()
    }
}

#[derive(Debug)]
struct FakeFile {
    id: FileId,
    disk: Arc<Fake>,
}

impl FakeFile {
    fn with<T>(&self, f: impl FnOnce(&mut Contents) -> T) -> T {
        f(self.disk.state.lock().files.get_mut(&self.id).expect("the file exists"))
    }
}

impl File for FakeFile {
    fn id(&self) -> FileId {
        self.id
    }

    fn len(&self) -> Result<u64> {
        Ok(self.with(|contents| contents.current.len() as u64))
    }

    fn reserved(&self) -> Result<u64> {
        self.len()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let (at, len) = (offset as usize, buffer.len());
        let found = self.with(|contents| contents.current.get(at..at + len).map(<[u8]>::to_vec));
        let found = found.ok_or_else(|| Error::corruption(self.id, offset, "the file ends early"))?;
        buffer.copy_from_slice(&found);
        Ok(())
    }

    fn write(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.disk.event(Event::Write(self.id, offset))?;
        assert!(offset.is_multiple_of(4096) && buffer.len().is_multiple_of(4096), "direct access is aligned");
        self.with(|contents| {
            for (i, sector) in buffer.chunks(SECTOR).enumerate() {
                let at = offset as usize + i * SECTOR;
                contents.current[at..at + SECTOR].copy_from_slice(sector);
                contents.unsynced.push((at, sector.to_vec()));
            }
        });
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.disk.event(Event::Sync(self.id))?;
        self.with(|contents| {
            contents.unsynced.clear();
            contents.synced = contents.current.clone();
        });
        Ok(())
    }

    fn preallocate(&self, offset: u64, length: u64) -> Result<()> {
        if self.disk.state.lock().full {
            return Err(Error::NoSpace { file: self.id.to_string(), wanted: length });
        }
        self.set_len(offset + length)
    }

    fn punch(&self, _: u64, _: u64) -> Result<bool> {
        Ok(false)
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.with(|contents| {
            contents.current.resize(length as usize, 0);
            contents.synced.resize(length as usize, 0);
        });
        Ok(())
    }

    fn forget(&self, _: u64, _: u64) {}
}

/// Completes every request at once, and returns the completions in the wrong order.
#[derive(Debug, Default)]
struct FakeQueue {
    done: Vec<Completion>,
}

impl Queue for FakeQueue {
    fn submit(&mut self, request: Request) {
        assert_eq!(request.op, Op::Write, "double writing reads nothing through the queue");
        let result = request.file.write(&request.block[..request.len], request.offset);
        self.done.push(Completion { request, result });
    }

    fn complete(&mut self, _: usize, done: &mut Vec<Completion>) {
        done.extend(self.done.drain(..).rev());
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
