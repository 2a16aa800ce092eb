//! The operations of a tree keyspace, as the database calls them.

use std::sync::Arc;

use ecotone_engine::{
    contract::{
        Access, Admission, Capabilities, Check, Cursor, Engine, EngineCheckpoint, Maintained, Operation, Ordered,
        Range, Record, Recover, Sampled, SampledStats, Stats, VisitValue,
    },
    idle::{self, MIN_GARBAGE_BYTES, MIN_TOMBSTONES},
};
use ecotone_substrate::{Result, Seq, limits::PAGE, memory::Component};

use super::{
    Tree,
    cache::{Purpose, RecordLookup},
    check, counters, sampled_stats, scan,
};

/// Estimated bytes that one delete hides.
const DELETED: u64 = 512;

impl Engine for Tree {
    fn read_into(&self, key: &[u8], access: Access, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let purpose = match access {
            Access::Read => Purpose::Read,
            Access::Update => Purpose::Update,
        };
        self.find(key, value, purpose)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.check_live()?;
        let (mut missing, mut value) = (Vec::new(), Vec::new());
        for (position, key) in keys.iter().enumerate() {
            value.clear();
            match self.cache.get(key, Purpose::Read, |cached| value.extend_from_slice(cached)) {
                RecordLookup::Value(()) => found(position, Some(&value)),
                RecordLookup::Tombstone => found(position, None),
                RecordLookup::Missing(ticket) => missing.push((*key, (position, ticket))),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.reader.find_many(missing, |(position, ticket), value| {
            if let Some(value) = value {
                self.cache.admit_clean(keys[position], value, &ticket);
            }
            found(position, value);
        })
    }

    fn throttle(&self, bytes: usize, _adds: bool) -> Result<()> {
        self.check_live()?;
        self.writeback.delay_writer(&self.context.shared, bytes, &mut self.no_delay())
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        self.check_live()?;
        self.take_slot(operation, &mut self.no_delay())
    }

    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        self.cache.apply(admission, seq, operation);
    }

    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        Ok(self.cache.overwrite(operation))
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.cache.first_dirty()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        let (deletes, newest) = (self.cache.deletes(), self.cache.newest());
        // Records applied later are not waited for, so a flush ends under any load.
        let below_newest = below.min(newest.saturating_add(1));
        self.writeback.flush(&self.context.shared, &self.write_out, below_newest)?;
        if below > newest {
            self.cache.subtract_deletes(deletes);
        }
        self.writeback.start_tidying(&self.context.shared);
        Ok(())
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.structure_log.take_checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        let space = &self.store.space;
        space.checkpoint_is_durable();
        space.release(self.context.shared.wal.synced());
        self.writeback.start_trimming(&self.context.shared);
    }

    fn verify(&self) -> Result<Check> {
        self.check_live()?;
        check::check_all(&self.store, &self.cache)
    }

    fn stats(&self) -> Stats {
        counters::stats(self)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { samples: Some(self), maintenance: Some(self), ..Capabilities::default() }
    }

    fn mark_dropped(&self) {
        self.cache.mark_dropped();
        self.pages.forget_keyspace(self.cache.number());
    }
}

impl Sampled for Tree {
    fn sampled_stats(&self) -> Result<SampledStats> {
        self.check_live()?;
        sampled_stats::sample(&self.store)
    }
}

impl Maintained for Tree {
    fn reclaimable_deletes(&self) -> u64 {
        let (deletes, used) = (self.cache.deletes(), u64::from(self.store.space.used()) * PAGE as u64);
        let hidden = used.min(deletes * DELETED);
        if deletes > MIN_TOMBSTONES && idle::has_excess_garbage(used, hidden, MIN_GARBAGE_BYTES) { deletes } else { 0 }
    }
}

impl Recover for Tree {
    fn replay_structure(&self, _seq: Seq, body: &[u8]) -> Result<()> {
        self.structure_log.reinstall(body)
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        let mut delay = self.no_delay();
        self.writeback.stall(&self.context.shared, &mut delay)?;
        let admission = self.take_slot(operation, &mut delay)?;
        self.apply(admission, seq, operation);
        Ok(())
    }

    fn structure_recovered(&self) -> Result<()> {
        self.store.space.settle();
        self.writeback.refresh_limit();
        Ok(())
    }

    fn recovered(&self) -> Result<()> {
        self.cache.reports().begin();
        Ok(())
    }
}

impl Ordered for Tree {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        Box::new(scan::Scan::new(self, range, memory))
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        self.check_live()?;
        self.load_sorted(records)
    }
}
