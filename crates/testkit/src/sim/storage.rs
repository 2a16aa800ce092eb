//! The simulated disk: the storage trait, crashes, and the operations by which a test changes the disk.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    health::Health,
    limits::PAGE,
    memory::Memory,
    scheduler::Scheduler,
    storage::{Access, Counters, File, FileId, FileKind, Queue, Storage},
};
use parking_lot::Mutex;
use rand::seq::SliceRandom;

use super::{
    gate::gate,
    history::{Crash, History},
    inode::Inode,
    phase::{Io, Label, Phase},
    queue::SimQueue,
    state::{InodeRef, Shared, SimState},
};

/// Longest wait for an I/O to arrive at a held page, before the test is declared stuck.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A database directory in memory. Clones are handles of the same disk.
#[derive(Debug, Clone)]
pub struct SimStorage {
    shared: Arc<Shared>,
}

impl SimStorage {
    /// An empty disk whose choices are drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        SimStorage { shared: Shared::new(SimState::new(seed)) }
    }

    /// The shared parts of a database on this disk, with a memory budget in bytes. Background jobs run on the thread
    /// that waits for them.
    pub fn environment(&self, database: u64, budget: usize) -> Environment {
        let health: Arc<Health> = Arc::default();
        let (storage, scheduler) = (Arc::new(self.clone()), Scheduler::manual(health.clone()));
        Environment { database, storage, memory: Memory::new(budget), scheduler, health }
    }

    /// The disk as the next machine (or, with [`Crash::KeepAll`], the next process) finds it. This disk goes on
    /// undisturbed, so one moment can be crashed in many ways. The limit of space is kept; ordered faults and gates are
    /// not.
    pub fn crash(&self, how: Crash) -> SimStorage {
        SimStorage { shared: Shared::new(self.shared.state().after(how)) }
    }

    /// Makes every I/O fail from now on, blocked ones included.
    pub fn power_off(&self) {
        self.shared.state().power_off();
        self.shared.changed.notify_all();
    }

    /// Whether the machine was switched off, by a crash or by [`power_off`](Self::power_off).
    pub fn is_off(&self) -> bool {
        self.shared.state().off
    }

    /// Index that the next I/O will get. Indices count reads, writes, syncs, directory syncs, creations, removals,
    /// preallocations, punches and changes of length, from 0.
    pub fn io_index(&self) -> u64 {
        self.shared.state().trace.len() as u64
    }

    /// The label of every I/O so far, by index.
    pub fn labels(&self) -> Vec<Label> {
        self.shared.state().trace.clone()
    }

    /// I/Os so far in each phase.
    pub fn phases(&self) -> BTreeMap<Phase, u64> {
        let mut phases = BTreeMap::new();
        self.shared.state().trace.iter().for_each(|label| *phases.entry(label.phase).or_default() += 1);
        phases
    }

    /// Switches the machine off in the middle of I/O `index`, or of the next one if that is past. A write is then done,
    /// not done or torn; any other I/O is done or not done.
    pub fn crash_at(&self, index: u64) {
        self.shared.state().plan.crash_at = Some(index);
    }

    /// Makes I/O `index` fail with `kind`. A failed write leaves each of its sectors old or new. A failed sync drops
    /// the unsynced bytes of the file, and a second sync would succeed. Every other I/O fails without effect.
    pub fn fail_at(&self, index: u64, kind: io::ErrorKind) {
        self.shared.state().plan.failures.insert(index, kind);
    }

    /// Makes the write with I/O `index` go to another page of the same file and report success.
    pub fn misplace(&self, index: u64) {
        self.shared.state().plan.misplaced.insert(index);
    }

    /// Makes the code that does I/O `index` panic there.
    pub fn panic_at(&self, index: u64) {
        self.shared.state().plan.panics.insert(index);
    }

    /// Limits the bytes that all files may reserve; may be raised and lowered at any time.
    pub fn space_limit(&self, bytes: u64) {
        self.shared.state().space_limit = bytes;
    }

    /// Bytes that all files have reserved. For each file: the end of its written or preallocated part, in pages, minus
    /// its holes.
    pub fn space_used(&self) -> u64 {
        self.shared.state().space_used()
    }

    /// Flips one bit of a file on the medium.
    ///
    /// # Panics
    /// If there is no such file, or it ends before.
    pub fn flip_bit(&self, file: FileId, offset: u64, bit: u32) {
        self.damage(file, offset, 1, |_, byte| *byte ^= 1 << bit);
    }

    /// Overwrites bytes of a file on the medium.
    ///
    /// # Panics
    /// If there is no such file, or it ends before.
    pub fn patch(&self, file: FileId, offset: u64, bytes: &[u8]) {
        self.damage(file, offset, bytes.len(), |at, byte| *byte = bytes[at]);
    }

    fn damage(&self, file: FileId, offset: u64, len: usize, change: impl FnMut(usize, &mut u8)) {
        let inode = self.inode(file);
        let mut inode = inode.lock();
        assert!(offset + len as u64 <= inode.extent().length, "{file} has no byte {offset}");
        inode.damage(offset, len, change);
    }

    /// Cuts a file on the medium.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn truncate(&self, file: FileId, length: u64) {
        self.inode(file).lock().truncate(length);
    }

    /// Puts a file with these bytes onto the medium, in place of any that has the name.
    pub fn put(&self, file: FileId, bytes: &[u8]) {
        let inode = Arc::new(Mutex::new(Inode::durable(bytes)));
        self.shared.state().names.insert(file, History::new(Some(inode)));
    }

    /// The files and their bytes, as a running system sees them, by name.
    pub fn files(&self) -> BTreeMap<FileId, Vec<u8>> {
        self.shared.state().files().map(|(id, inode)| (id, bytes_of(inode))).collect()
    }

    /// The bytes of one file, if it is there.
    pub fn file(&self, file: FileId) -> Option<Vec<u8>> {
        self.shared.state().find(file).map(bytes_of)
    }

    /// Blocks every read and write that touches the page of this byte, until [`release`](Self::release) or the end of
    /// power.
    pub fn hold(&self, file: FileId, offset: u64) {
        self.shared.state().gates.hold(gate(file, offset));
    }

    /// Releases a held page, so that blocked I/O goes on.
    pub fn release(&self, file: FileId, offset: u64) {
        self.shared.state().gates.release(gate(file, offset));
        self.shared.changed.notify_all();
    }

    /// Waits until an I/O is blocked at a held page.
    ///
    /// # Panics
    /// If none arrives within ten seconds.
    pub fn wait_blocked(&self, file: FileId, offset: u64) {
        let deadline = Instant::now() + MAX_WAIT;
        let mut state = self.shared.state();
        while state.gates.blocked(gate(file, offset)) == 0 {
            let late = self.shared.changed.wait_until(&mut state, deadline).timed_out();
            assert!(!late, "no I/O came to byte {offset} of {file}");
        }
    }

    fn inode(&self, file: FileId) -> InodeRef {
        let state = self.shared.state();
        state.find(file).unwrap_or_else(|| panic!("there is no {file}")).clone()
    }

    fn handle(&self, inode: InodeRef, id: FileId, access: Access) -> Arc<dyn File> {
        Arc::new(super::file::SimFile::new(self.shared.clone(), inode, id, access))
    }
}

fn bytes_of(inode: &InodeRef) -> Vec<u8> {
    let inode = inode.lock();
    let mut bytes = vec![0; usize::try_from(inode.extent().length).expect("a simulated file fits into memory")];
    inode.read(&mut bytes, 0);
    bytes
}

impl Storage for SimStorage {
    fn list(&self) -> Result<Vec<FileId>> {
        let mut state = self.shared.state();
        state.check_power("list", "the directory")?;
        let mut files: Vec<FileId> = state.files().map(|(id, _)| id).collect();
        files.shuffle(&mut state.random);
        Ok(files)
    }

    fn create(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        let inode = InodeRef::default();
        self.shared.perform((id, Io::Create), (0, 0), |state, fate| {
            if state.find(id).is_some() {
                return Err(Error::io(Io::Create.verb(), id, io::ErrorKind::AlreadyExists.into()));
            }
            if state.space_left() == 0 {
                // A name takes space as well; the directory has space for it or has not.
                return Err(Error::NoSpace { file: id.to_string(), wanted: PAGE as u64 });
            }
            if fate.takes_effect(&mut state.random) {
                state.bind(id, Some(inode.clone()));
            }
            Ok(())
        })?;
        Ok(self.handle(inode, id, access))
    }

    fn open(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        let state = self.shared.state();
        state.check_power("open", id)?;
        let inode = state.find(id).ok_or_else(|| Error::io("open", id, io::ErrorKind::NotFound.into()))?.clone();
        Ok(self.handle(inode, id, access))
    }

    fn remove(&self, id: FileId) -> Result<()> {
        self.shared.perform((id, Io::Remove), (0, 0), |state, fate| {
            if state.find(id).is_none() {
                return Err(Error::io(Io::Remove.verb(), id, io::ErrorKind::NotFound.into()));
            }
            if fate.takes_effect(&mut state.random) {
                state.bind(id, None);
            }
            Ok(())
        })
    }

    fn sync_dir(&self) -> Result<()> {
        self.shared.perform_on_directory(|state, fate| {
            if fate.takes_effect(&mut state.random) {
                state.sync_names();
            }
            Ok(())
        })
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        Ok(Box::new(SimQueue::new(self.shared.clone())))
    }

    fn free_space(&self) -> Result<u64> {
        Ok(self.shared.state().space_left())
    }

    fn counters_of(&self, kind: FileKind) -> Counters {
        self.shared.state().counters.get(&kind).copied().unwrap_or_default()
    }
}
