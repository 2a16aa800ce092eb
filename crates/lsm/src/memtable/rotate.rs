//! Rotation: a full active memtable gives way to a fresh one, and becomes immutable. Also asks for the flushes that
//! free the memory of memtables (lsm-protocol.md, invariants 4 and 9).

use std::sync::{Arc, Weak};

use ecotone_engine::write_delay::WriteDelay;
use ecotone_substrate::{Result, scheduler::Priority};

use crate::{
    compaction::throttle::write_stall::MAX_IMMUTABLE_MEMTABLES, memtable::Memtable, store::Lsm,
    version::super_version::MemtableRef,
};

/// Halves of the full size to which a memtable may grow while it takes few new keys.
const GROWN: usize = 3;

impl Lsm {
    /// Rotates the active memtable if it is full. A writer that finds too many immutable memtables flushes one itself.
    pub(crate) fn rotate_if_full(self: &Arc<Self>) -> Result<()> {
        let mut delay = WriteDelay::new(&self.delays, &*self.files.context().shared.clock);
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

    /// Bytes of the slabs of all memtables.
    pub(crate) fn memtable_bytes(&self) -> usize {
        let pin = self.current.pin();
        self.current.load(&pin).memtables.iter().map(|memtable_ref| memtable_ref.memtable.bytes()).sum()
    }

    /// Flushes the oldest memtable, and waits until its memory is free. False if the memtables have none.
    pub(crate) fn free_memtable_memory(self: &Arc<Self>) -> Result<bool> {
        let Some(oldest) = self.freeze_oldest()? else { return Ok(false) };
        self.flush_if(|| self.is_memtable_live(&oldest))?;
        self.current.wait_until_freed(&oldest);
        Ok(true)
    }

    /// The same in the background. Does nothing if another thread flushes.
    pub(crate) fn try_to_free_memtable_memory(self: &Arc<Self>) -> Result<()> {
        let Some(oldest) = self.freeze_oldest()? else { return Ok(()) };
        self.flush_waiting()?;
        if !self.is_memtable_live(&oldest) {
            self.current.wait_until_freed(&oldest);
        }
        Ok(())
    }

    /// The oldest memtable, if there is anything in it. If that is the active one, rotates it.
    fn freeze_oldest(&self) -> Result<Option<Weak<MemtableRef>>> {
        let (oldest, is_active, bytes) = {
            let pin = self.current.pin();
            let memtables = &self.current.load(&pin).memtables;
            let oldest = memtables.last().expect("a view has memtables");
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

    /// How full the active memtable is, how many immutable ones there are, and the active one if it is full.
    #[inline]
    pub(crate) fn fill_level(&self) -> (f64, usize, Option<Weak<MemtableRef>>) {
        let pin = self.current.pin();
        let memtables = &self.current.load(&pin).memtables;
        let (active, full) = (&memtables[0].memtable, self.pool.full(self.tuning.memtable));
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
        let _structure = self.files.structure();
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

    /// Schedules the flush of immutable memtables.
    pub(crate) fn schedule_flush_if_needed(self: &Arc<Self>) {
        if self.flush_job.request() {
            self.spawn_flush_job();
        }
    }

    fn spawn_flush_job(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.spawn(Priority::Flush, "flush memtables", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            lsm.flush_job.begin();
            match lsm.flush_waiting() {
                Ok(()) => lsm.write_stall.flush.succeeded(),
                // Without memory or space the flush is tried again when writers need it.
                Err(error) => {
                    lsm.idle.reset();
                    lsm.write_stall.flush.failed(&*lsm.files.context().shared.clock);
                    drop(lsm.files.environment().health.postpone("flushing memtables", error));
                }
            }
            if lsm.flush_job.end() {
                lsm.spawn_flush_job();
            }
        });
    }
}
