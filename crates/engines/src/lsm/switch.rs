//! A full memtable makes way for a fresh one (decision 12, invariants 4 and 9).

use std::sync::Arc;

use ecotone_substrate::{Result, scheduler::Priority};

use super::{memtable::Memtable, pressure::WAITING, records::Lsm, view::Member};
use crate::delay::Delay;

impl Lsm {
    /// Sees to it that the active memtable is not full. Whoever finds too many that wait flushes one, and whoever finds that it comes to this soon is delayed.
    pub(super) fn make_room(self: &Arc<Self>) -> Result<()> {
        let mut delay = Delay::new(&self.delays, &*self.files.context().shared.clock);
        loop {
            let (filled, waiting, full) = self.fill_level();
            let Some(full) = full else {
                self.slow_down(filled, waiting, &mut delay);
                return Ok(());
            };
            if waiting >= WAITING {
                delay.begin();
                self.flush_oldest()?;
                self.call_compaction();
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
    pub(super) fn give_memory(&self) -> Result<bool> {
        let view = self.present.get();
        if view.memtables.len() == 1 {
            let active = &view.memtables[0];
            if active.memtable.bytes() == 0 {
                return Ok(false);
            }
            self.switch(active)?;
        }
        let oldest = view.memtables.last().map(Arc::downgrade).expect("a view has memtables");
        drop(view);
        self.flush_oldest()?;
        self.present.wait_for_end(&oldest);
        Ok(true)
    }

    /// The part of the active memtable that is filled, how many are older, and the active one if it is full.
    #[inline]
    fn fill_level(&self) -> (f64, usize, Option<Arc<Member>>) {
        let pin = self.present.pin();
        let memtables = &self.present.load(&pin).memtables;
        let (filled, full) = (memtables[0].memtable.filled(), self.pool.full(self.sizes.memtable));
        let active = (filled >= full).then(|| memtables[0].clone());
        (filled as f64 / full as f64, memtables.len() - 1, active)
    }

    /// Puts a fresh memtable before this one, which was seen to be active, unless another has done that. The one before it is sealed first.
    pub(super) fn switch(&self, active: &Arc<Member>) -> Result<()> {
        // Nothing else is unsealed from now on, as long as this one is active.
        self.present.seal();
        let credit = self.room.admit_switch(|| self.free())?;
        let fresh = Memtable::new(&active.memtable.common_prefix());
        let _structure = self.files.structure();
        if !Arc::ptr_eq(&self.present.get().memtables[0], active) {
            self.room.give_back(credit);
            return Ok(());
        }
        let room = self.room.clone();
        self.present.switch(fresh, move || room.give_back(credit));
        Ok(())
    }

    /// Has the background flush what waits.
    fn call_flush(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.spawn(Priority::Flush, "flush a memtable", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            match lsm.flush_oldest() {
                Ok(_) => lsm.call_compaction(),
                // Without memory or space it is tried again when writers need it.
                Err(error) => drop(lsm.files.environment().health.poison(error)),
            }
        });
    }
}
