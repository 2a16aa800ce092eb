//! A full memtable makes way for a fresh one (decision 12, invariants 4 and 9).

use std::sync::{Arc, Weak};

use ecotone_substrate::{Result, scheduler::Priority};

use super::{memtable::Memtable, pressure::WAITING, records::Lsm, view::Member};
use crate::delay::Delay;

/// Halves of its size that a memtable grows to as long as it takes few new keys.
const GROWN: usize = 3;

impl Lsm {
    /// Sees to it that the active memtable is not full. Whoever finds too many that wait flushes one.
    pub(super) fn make_room(self: &Arc<Self>) -> Result<()> {
        let mut delay = Delay::new(&self.delays, &*self.files.context().shared.clock);
        loop {
            let (_, waiting, full) = self.fill_level();
            let Some(full) = full else { return Ok(()) };
            if waiting >= WAITING {
                delay.begin();
                self.flush_if(|| matches!(self.fill_level(), (_, WAITING.., Some(_))))?;
            } else {
                self.switch(&full)?;
                self.call_flush();
            }
        }
    }

    /// Bytes of the slabs of its memtables.
    pub(super) fn memtable_bytes(&self) -> usize {
        let pin = self.present.pin();
        self.present.load(&pin).memtables.iter().map(|member| member.memtable.bytes()).sum()
    }

    /// Makes memory of memtables free. False if they have none.
    pub(super) fn give_memory(self: &Arc<Self>) -> Result<bool> {
        let Some(oldest) = self.seal_oldest()? else { return Ok(false) };
        self.flush_if(|| self.is_there(&oldest))?;
        self.present.wait_for_end(&oldest);
        Ok(true)
    }

    /// The same in the background, where nothing is done if another flushes.
    pub(super) fn try_to_give_memory(self: &Arc<Self>) -> Result<()> {
        let Some(oldest) = self.seal_oldest()? else { return Ok(()) };
        self.flush_waiting()?;
        if !self.is_there(&oldest) {
            self.present.wait_for_end(&oldest);
        }
        Ok(())
    }

    /// The oldest memtable, which is not the active one, if there is anything in it.
    fn seal_oldest(&self) -> Result<Option<Weak<Member>>> {
        let (oldest, is_active, bytes) = {
            let pin = self.present.pin();
            let memtables = &self.present.load(&pin).memtables;
            let oldest = memtables.last().expect("a view has memtables");
            (Arc::downgrade(oldest), memtables.len() == 1, oldest.memtable.bytes())
        };
        if is_active && bytes == 0 {
            return Ok(None);
        }
        if is_active {
            self.put_by(&oldest)?;
        }
        Ok(Some(oldest))
    }

    /// The part of the active memtable that is filled, how many are older, and the active one if it is full.
    #[inline]
    pub(super) fn fill_level(&self) -> (f64, usize, Option<Weak<Member>>) {
        let pin = self.present.pin();
        let memtables = &self.present.load(&pin).memtables;
        let (active, full) = (&memtables[0].memtable, self.pool.full(self.sizes.memtable));
        // The keys that it has would come again.
        let full = if active.is_overwritten() { full / 2 * GROWN } else { full };
        let filled = active.filled();
        let active = (filled >= full).then(|| Arc::downgrade(&memtables[0]));
        (filled as f64 / full as f64, memtables.len() - 1, active)
    }

    /// Puts a fresh memtable before this one, which was seen to be active, unless another has done that. The one before
    /// it is sealed first.
    pub(super) fn switch(&self, active: &Weak<Member>) -> Result<()> {
        // Nothing else is unsealed from now on, as long as this one is active.
        self.present.seal();
        let credit = self.room.admit_switch(|| self.free())?;
        let prefix = active.upgrade().map(|active| active.memtable.common_prefix());
        let _structure = self.files.structure();
        let is_active = Arc::as_ptr(&self.present.get().memtables[0]) == active.as_ptr();
        let Some(prefix) = prefix.filter(|_| is_active) else {
            self.room.give_back(credit);
            return Ok(());
        };
        let fresh = Memtable::new(&prefix);
        let room = self.room.clone();
        self.present.switch(fresh, move || room.give_back(credit));
        Ok(())
    }

    /// The same for a memtable that is not full, as thousands of keyspaces may have one each: the large slab that the
    /// switch needed does not become the next memtable's.
    pub(super) fn put_by(&self, active: &Weak<Member>) -> Result<()> {
        self.switch(active)?;
        self.present.seal();
        self.room.trim();
        Ok(())
    }

    /// Has the background flush what waits.
    pub(super) fn call_flush(self: &Arc<Self>) {
        if self.flush_job.call() {
            self.schedule_flush();
        }
    }

    fn schedule_flush(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.spawn(Priority::Flush, "flush memtables", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            lsm.flush_job.begin();
            match lsm.flush_waiting() {
                Ok(()) => lsm.pressure.flush.succeeded(),
                // Without memory or space it is tried again when writers need it.
                Err(error) => {
                    lsm.idle.begin_anew();
                    lsm.pressure.flush.failed(&*lsm.files.context().shared.clock);
                    drop(lsm.files.environment().health.postpone("flushing memtables", error));
                }
            }
            if lsm.flush_job.end() {
                lsm.schedule_flush();
            }
        });
    }
}
