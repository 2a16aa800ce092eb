//! How records come into a keyspace: a write is delayed while the background is behind, reserves memory, and goes into
//! the active memtable. A full memtable is rotated (lsm.md, "Memtable"; lsm-protocol.md, invariants 4 and 9;
//! compaction-pace.md, "Write stalls").

use std::sync::{Arc, Weak};

use ecotone_engine::{contract::Operation, write_delay::WriteDelay};
use ecotone_substrate::{Error, Result, Seq, bug, environment::Environment};
use ecotone_sys::chunk::Size;

use crate::{
    compaction::throttle::{
        disk_shortage::{LOOK_AGAIN, MAX_WAIT, WHAT},
        write_stall::{MAX_IMMUTABLE_MEMTABLES, memtable_stall_fraction},
    },
    memtable::{
        Memtable,
        pool::MemtableOwner,
        slab_reserve::{Reservation, size_of_next},
    },
    store::Lsm,
    version::super_version::MemtableRef,
};

/// Halves of the full size to which a memtable may grow while it takes few new keys.
const GROWN: usize = 3;

impl Lsm {
    /// Free words in the memtables that can still be written.
    pub(super) fn free(&self) -> u64 {
        self.current.load(&self.current.pin()).writable_memtables().map(|memtable| memtable.free() as u64).sum()
    }

    /// The size of the next memtable slab.
    fn size_of_next(&self) -> Size {
        size_of_next(self.memtable_bytes() + self.slabs.bytes())
    }

    /// Reserves memory for a write. Rotates the active memtable before, if that is full.
    pub(super) fn admit(self: &Arc<Self>, Operation { key, value }: Operation<'_>) -> Result<Reservation> {
        let words = Memtable::words(self.hash(key), key, value);
        loop {
            self.rotate_if_full()?;
            match self.slabs.admit(words, || self.size_of_next(), || self.free()) {
                Err(Error::Memory { .. }) if self.slabs.pool().free_memtable_memory()? => {}
                Err(Error::Memory { .. }) => {
                    return self.slabs.reserve_essential(words, || self.size_of_next(), || self.free());
                }
                admitted => return admitted,
            }
        }
    }

    /// The same for a record that is replayed from the log. On a full disk nothing is flushed; memtables then take the
    /// record as long as there is memory at all. So recovery needs no disk space.
    pub(super) fn admit_logged(self: &Arc<Self>, operation: Operation<'_>) -> Result<Reservation> {
        match self.admit(operation) {
            Err(error) if error.is_no_space() => {}
            admitted => return admitted,
        }
        if let (_, _, Some(full)) = self.fill_level() {
            self.rotate(&full)?;
        }
        let words = Memtable::words(self.hash(operation.key), operation.key, operation.value);
        self.slabs.reserve_essential(words, || self.size_of_next(), || self.free())
    }

    /// Makes a write, on the reservation that it was admitted with.
    pub(super) fn apply(&self, reservation: Reservation, seq: Seq, Operation { key, value }: Operation<'_>) {
        self.read_observer().into_iter().for_each(|observer| observer.on_write(key, value, seq));
        {
            let pin = self.current.pin();
            let (active, reports) = (self.current.load(&pin).active(), self.reports());
            active.apply(self.hash(key), key, value, seq, &mut || self.slabs.take(), reports);
        }
        self.read_observer().into_iter().for_each(|observer| observer.on_written(key, true));
        self.slabs.release(reservation);
    }

    /// Overwrites a value in place, if the active memtable has a shortcut to the key and the new value fits. False if
    /// it did not.
    pub(super) fn overwrite(&self, seq: Seq, Operation { key, value }: Operation<'_>) -> bool {
        self.read_observer().into_iter().for_each(|observer| observer.on_write(key, value, seq));
        let is_done = {
            let pin = self.current.pin();
            self.current.load(&pin).active().overwrite(self.hash(key), key, value, seq, self.reports())
        };
        self.read_observer().into_iter().for_each(|observer| observer.on_written(key, is_done));
        is_done
    }

    /// Rotates the active memtable if it is full. A writer that finds too many immutable memtables flushes one itself.
    pub(crate) fn rotate_if_full(self: &Arc<Self>) -> Result<()> {
        let mut delay = WriteDelay::new(&self.throttle.delays, &*self.files.context().shared.clock);
        loop {
            let (_, waiting, full) = self.fill_level();
            let Some(full) = full else { return Ok(()) };
            if waiting >= MAX_IMMUTABLE_MEMTABLES {
                delay.begin();
                self.flush_if(|| matches!(self.fill_level(), (_, MAX_IMMUTABLE_MEMTABLES.., Some(_))))?;
            } else {
                self.rotate(&full)?;
                self.schedule_flush_if_needed();
            }
        }
    }

    /// How full the active memtable is, how many immutable ones there are, and the active one if it is full.
    #[inline]
    pub(crate) fn fill_level(&self) -> (f64, usize, Option<Weak<MemtableRef>>) {
        let pin = self.current.pin();
        let memtables = &self.current.load(&pin).memtables;
        let (active, full) = (&memtables[0].memtable, self.slabs.pool().full(self.tuning.memtable));
        // A memtable that is overwritten may grow: in a fresh one the same keys would come again.
        let full = if active.is_overwritten() { full / 2 * GROWN } else { full };
        let filled = active.filled();
        let active = (filled >= full).then(|| Arc::downgrade(&memtables[0]));
        (filled as f64 / full as f64, memtables.len() - 1, active)
    }

    /// Puts a fresh memtable before this one, which was seen to be active, unless another thread has done that. The
    /// memtable before it becomes immutable first.
    pub(crate) fn rotate(&self, active: &Weak<MemtableRef>) -> Result<()> {
        // From now on no other memtable is writable, as long as this one is active.
        self.current.wait_until_immutable();
        let reservation = self.slabs.reserve_rotation(|| self.free())?;
        let prefix = active.upgrade().map(|active| active.memtable.common_prefix());
        let _guard = self.files.lock_structure();
        let is_active = Arc::as_ptr(&self.current.get().memtables[0]) == active.as_ptr();
        let Some(prefix) = prefix.filter(|_| is_active) else {
            self.slabs.release(reservation);
            return Ok(());
        };
        let fresh = Memtable::new(&prefix);
        let slabs = self.slabs.clone();
        self.current.rotate(fresh, move || slabs.release(reservation));
        Ok(())
    }

    /// The same for a memtable that is not full. The large slab that the rotation reserved is given back, as thousands
    /// of keyspaces may have a small memtable each.
    pub(crate) fn rotate_early(&self, active: &Weak<MemtableRef>) -> Result<()> {
        self.rotate(active)?;
        self.current.wait_until_immutable();
        self.slabs.trim();
        Ok(())
    }

    /// Bytes of the slabs of all memtables.
    pub(crate) fn memtable_bytes(&self) -> usize {
        let pin = self.current.pin();
        self.current.load(&pin).memtables.iter().map(|memtable_ref| memtable_ref.memtable.bytes()).sum()
    }

    /// The oldest memtable, if there is anything in it. If that is the active one, rotates it.
    fn rotate_oldest(&self) -> Result<Option<Weak<MemtableRef>>> {
        let (oldest, is_active, bytes) = {
            let pin = self.current.pin();
            let memtables = &self.current.load(&pin).memtables;
            let oldest = memtables.last().expect("a super version has memtables");
            (Arc::downgrade(oldest), memtables.len() == 1, oldest.memtable.bytes())
        };
        if is_active && bytes == 0 {
            return Ok(None);
        }
        if is_active {
            self.rotate_early(&oldest)?;
        }
        Ok(Some(oldest))
    }

    /// Delays a writer of so many bytes while the background is behind. Without background threads there is no delay,
    /// as nothing would catch up.
    #[inline]
    pub(crate) fn pace(self: &Arc<Self>, bytes: usize) {
        let (filled, waiting, _) = self.fill_level();
        let memory = memtable_stall_fraction(filled, waiting).max(self.slabs.pool().fullness());
        if memory.max(self.stall_fraction()) > 0.0 && self.files.environment().scheduler.is_threaded() {
            self.slow_down(memory, bytes);
        }
    }

    /// A writer is delayed only for work that is under way: the work is scheduled first, and a job that has failed is
    /// not waited for.
    #[cold]
    fn slow_down(self: &Arc<Self>, memory: f64, bytes: usize) {
        let memory = if memory > 0.0 && self.is_flush_running() { memory } else { 0.0 };
        let is_owed = self.stall_fraction() > 0.0 && (bug!(PaceForNobody) || self.is_compaction_running());
        let stall_fraction = if is_owed { self.stall_fraction() } else { 0.0 };
        if let Some(owed) = self.throttle.stall.pace.charge(memory.max(stall_fraction), bytes) {
            if self.slabs.pool().fullness() > 0.0 {
                // A keyspace with large memtables may not write any more; only a lack of memory would ask for its
                // flush. So it is flushed here.
                self.slabs.pool().relieve();
            }
            WriteDelay::new(&self.throttle.delays, &*self.files.context().shared.clock).sleep(owed);
        }
    }

    /// Schedules a flush if one is needed. False if the last one failed.
    fn is_flush_running(self: &Arc<Self>) -> bool {
        if self.has_immutable_memtables() && self.flusher.retry.is_due(&*self.files.context().shared.clock) {
            self.schedule_flush_if_needed();
        }
        !self.flusher.retry.has_failed()
    }

    /// Schedules a compaction if one is due. Whether one runs, and the last one did not fail.
    pub(crate) fn is_compaction_running(self: &Arc<Self>) -> bool {
        if self.compactor.job.is_idle() && self.compactor.retry.is_due(&*self.files.context().shared.clock) {
            self.schedule_compaction_if_due();
        }
        let is_busy = !self.compactor.job.is_idle() || self.compactor.lock.is_locked();
        is_busy && !self.compactor.retry.has_failed()
    }

    /// Refuses writes that add data, as long as space is wanting. Schedules a compaction, which may free some, and
    /// waits for it a little while it runs.
    ///
    /// # Errors
    /// [`NoSpace`](Error::NoSpace).
    #[inline]
    pub(crate) fn check_space(self: &Arc<Self>) -> Result<()> {
        if self.throttle.shortage.is_there() { self.wait_for_space() } else { Ok(()) }
    }

    #[cold]
    fn wait_for_space(self: &Arc<Self>) -> Result<()> {
        let clock = &*self.files.context().shared.clock;
        let end = clock.now().saturating_add(MAX_WAIT.as_nanos() as u64);
        let mut delay = WriteDelay::new(&self.throttle.delays, clock);
        loop {
            let is_compaction_running = self.is_compaction_running();
            self.look_for_space(&self.version());
            let wanted = self.throttle.shortage.bytes();
            if wanted == 0 {
                return Ok(());
            }
            let now = clock.now();
            let is_vain = !is_compaction_running && self.throttle.shortage.is_old(now);
            if is_vain || !self.files.environment().scheduler.is_threaded() || now >= end {
                return Err(Error::NoSpace { file: WHAT.to_owned(), wanted });
            }
            delay.sleep(LOOK_AGAIN);
        }
    }
}

impl MemtableOwner for Lsm {
    fn check_live(&self) -> Result<()> {
        Lsm::check_live(self)
    }

    fn environment(&self) -> &Environment {
        self.files.environment()
    }

    fn memtable_bytes(&self) -> usize {
        Lsm::memtable_bytes(self)
    }

    fn free_memtable_memory(self: Arc<Self>) -> Result<bool> {
        let Some(oldest) = self.rotate_oldest()? else { return Ok(false) };
        self.flush_if(|| self.is_memtable_live(&oldest))?;
        self.current.wait_until_freed(&oldest);
        Ok(true)
    }

    fn try_to_free_memtable_memory(self: Arc<Self>) -> Result<()> {
        let Some(oldest) = self.rotate_oldest()? else { return Ok(()) };
        self.flush_waiting()?;
        if !self.is_memtable_live(&oldest) {
            self.current.wait_until_freed(&oldest);
        }
        Ok(())
    }
}
