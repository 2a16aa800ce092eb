//! The state of one simulated machine's disk, and the one entry through which every I/O goes.

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    limits::{PAGE, SECTOR},
    storage::{Counters, FileId, FileKind},
};
use ecotone_sys::primitive::{Condvar, Mutex, MutexGuard};
use rand::{SeedableRng, rngs::SmallRng};

use super::{
    fault::{Fate, Plan},
    gate::Gates,
    history::{Crash, History},
    inode::Inode,
    phase::{Io, Label},
    stepped_thread,
};

/// A file, shared by its names and its open handles. Its lock is held only within the lock of [`SimState`], so threads
/// cannot interleave at it.
pub(super) type InodeRef = Arc<parking_lot::Mutex<Inode>>;

/// The state of the simulated machine, behind one lock.
pub(super) struct SimState {
    pub(super) names: BTreeMap<FileId, History<Option<InodeRef>>>,
    pub(super) random: SmallRng,
    pub(super) plan: Plan,
    pub(super) trace: Vec<Label>,
    pub(super) counters: BTreeMap<FileKind, Counters>,
    pub(super) gates: Gates,
    pub(super) space_limit: u64,
    pub(super) off: bool,
    /// The smallest unit of a direct transfer, in bytes.
    unit: usize,
    seed: u64,
}

impl SimState {
    pub(super) fn new(seed: u64) -> Self {
        SimState {
            names: BTreeMap::new(),
            random: SmallRng::seed_from_u64(seed),
            plan: Plan::default(),
            trace: Vec::new(),
            counters: BTreeMap::new(),
            gates: Gates::default(),
            space_limit: u64::MAX,
            off: false,
            // Half of the disks have units as small as real disks have.
            unit: if seed.is_multiple_of(2) { PAGE } else { SECTOR },
            seed,
        }
    }

    /// The file that has this name now.
    pub(super) fn find(&self, id: FileId) -> Option<&InodeRef> {
        self.names.get(&id)?.now().as_ref()
    }

    /// The files that have a name now.
    pub(super) fn files(&self) -> impl Iterator<Item = (FileId, &InodeRef)> {
        self.names.iter().filter_map(|(id, history)| Some((*id, history.now().as_ref()?)))
    }

    /// Gives a name to a file, or to none; volatile until the directory is synced.
    pub(super) fn bind(&mut self, id: FileId, inode: Option<InodeRef>) {
        self.names.entry(id).or_insert_with(|| History::new(None)).push(inode);
    }

    pub(super) fn sync_names(&mut self) {
        self.names.values_mut().for_each(History::settle);
        self.names.retain(|_, history| history.now().is_some());
    }

    /// Bytes reserved by the files that have a name.
    pub(super) fn space_used(&self) -> u64 {
        self.files().map(|(_, inode)| inode.lock().extent().reserved()).sum()
    }

    /// Bytes that may still be reserved.
    pub(super) fn space_left(&self) -> u64 {
        if self.space_limit == u64::MAX { u64::MAX } else { self.space_limit.saturating_sub(self.space_used()) }
    }

    /// Whether `growth` more bytes fit on the disk.
    pub(super) fn take_space(&self, growth: u64) -> io::Result<()> {
        if growth > 0 && self.space_limit < u64::MAX && self.space_used().saturating_add(growth) > self.space_limit {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full"));
        }
        Ok(())
    }

    /// Fails if the machine has no power.
    pub(super) fn check_power(&self, io: &'static str, name: impl fmt::Display) -> Result<()> {
        if self.off { Err(Error::io(io, name, off())) } else { Ok(()) }
    }

    pub(super) fn power_off(&mut self) {
        self.off = true;
        self.gates.release_all();
    }

    /// The disk as the next machine or process finds it.
    pub(super) fn after(&self, how: Crash) -> SimState {
        let seed = if let Crash::Random(seed) = how { seed } else { self.seed.wrapping_add(1) };
        let mut random = SmallRng::seed_from_u64(seed);
        let mut next = SimState { space_limit: self.space_limit, unit: self.unit, ..SimState::new(seed) };
        for (id, history) in &self.names {
            let age = |inode: &InodeRef, random: &mut SmallRng| {
                Arc::new(parking_lot::Mutex::new(inode.lock().after(how, random)))
            };
            let survivor = match how {
                Crash::KeepAll => history.map(|inode| inode.as_ref().map(|inode| age(inode, &mut random))),
                Crash::DropAll => History::new(history.survivor(None).as_ref().map(|inode| age(inode, &mut random))),
                Crash::Random(_) => {
                    let inode = history.survivor(Some(&mut random)).clone();
                    History::new(inode.map(|inode| age(&inode, &mut random)))
                }
            };
            next.names.insert(*id, survivor);
        }
        next
    }

    fn count(&mut self, kind: FileKind, io: Io, len: usize) {
        let counters = self.counters.entry(kind).or_default();
        match io {
            Io::Read => (counters.reads, counters.read_bytes) = (counters.reads + 1, counters.read_bytes + len as u64),
            Io::Write => {
                (counters.writes, counters.write_bytes) = (counters.writes + 1, counters.write_bytes + len as u64)
            }
            Io::Sync | Io::SyncDir => counters.syncs += 1,
            Io::Preallocate | Io::Punch | Io::SetLen | Io::Create | Io::Remove => {}
        }
    }
}

/// The lock of the state, and the condition for threads that wait at gates.
pub(super) struct Shared {
    state: Mutex<SimState>,
    /// Notified when a gate changes.
    pub(super) changed: Condvar,
    /// The smallest unit of a direct transfer, in bytes.
    pub(super) unit: usize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Shared").field("files", &state.files().count()).field("io", &state.trace.len()).finish()
    }
}

impl Shared {
    pub(super) fn new(state: SimState) -> Arc<Self> {
        let unit = state.unit;
        Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), unit })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock()
    }

    /// Does one I/O on a file or its name: lets a [`SteppedThread`](stepped_thread::SteppedThread) stop before and
    /// after it, waits at gates, takes an index, and applies its fate. `work` has the effect that the fate leaves to
    /// it. An I/O that fails or crashes gives that error, whatever `work` answers.
    pub(super) fn perform<T>(
        &self,
        (id, io): (FileId, Io),
        (offset, len): (u64, usize),
        work: impl FnOnce(&mut SimState, Fate) -> Result<T>,
    ) -> Result<T> {
        let label = Label::of(id, io);
        stepped_thread::stop(label.phase);
        let state = self.enter(id, offset, len);
        let done = self.run(state, (label, id.kind()), len, &id, work);
        stepped_thread::stop(label.phase);
        done
    }

    /// Does one sync of the directory.
    pub(super) fn perform_on_directory(&self, work: impl FnOnce(&mut SimState, Fate) -> Result<()>) -> Result<()> {
        self.run(self.state(), (Label::SYNC_DIR, FileKind::Directory), 0, &"the directory", work)
    }

    fn run<T>(
        &self,
        mut state: MutexGuard<'_, SimState>,
        (label, kind): (Label, FileKind),
        len: usize,
        name: &dyn fmt::Display,
        work: impl FnOnce(&mut SimState, Fate) -> Result<T>,
    ) -> Result<T> {
        state.check_power(label.io.verb(), name)?;
        let index = state.trace.len() as u64;
        let fate = state.plan.fate(index);
        state.trace.push(label);
        state.count(kind, label.io, len);
        let done = work(&mut state, fate);
        match fate {
            Fate::Normal | Fate::Misplaced => done,
            Fate::Fails(kind) => Err(Error::io(label.io.verb(), name, io::Error::new(kind, "a simulated failure"))),
            Fate::Crash => {
                state.power_off();
                self.changed.notify_all();
                Err(Error::io(label.io.verb(), name, off()))
            }
        }
    }

    /// Waits until no held page is in the way.
    fn enter(&self, id: FileId, offset: u64, len: usize) -> MutexGuard<'_, SimState> {
        let mut state = self.state();
        while let Some(gate) = state.gates.in_the_way(id, offset, len) {
            state.gates.arrive(gate);
            self.changed.notify_all();
            self.changed.wait(&mut state);
            state.gates.leave(gate);
        }
        state
    }
}

fn off() -> io::Error {
    io::Error::other("the machine is off")
}
