//! Sorted bulk load: writes full pages into free space, one chunk of records at a time (tree.md, "Bulk load").

use ecotone_engine::{bulk::ascends, contract::Record};
use ecotone_substrate::{Result, limits::PAGE};

use super::{
    Tree, records::Records, reorganise::ReorganisationUnit, scan, segment_update::SegmentUpdate, store::SegmentRange,
};

/// Bytes of records in one chunk.
pub(super) const CHUNK: usize = 192 * PAGE;

impl Tree {
    /// Loads ascending records above every key present.
    pub(crate) fn load_sorted(
        self: &std::sync::Arc<Self>,
        records: &mut dyn Iterator<Item = Result<Record>>,
    ) -> Result<u64> {
        let mut last = scan::last_key(self)?;
        let mut chunk = Records::default();
        let mut loaded = 0;
        loop {
            let next = records.next();
            let in_order = next.map(|record| record.and_then(|record| ascends(last.as_deref(), record)));
            match in_order {
                Some(Ok((key, value))) => {
                    chunk.push(&key, &value);
                    last = Some(key);
                    if chunk.bytes() >= CHUNK {
                        loaded += self.load_chunk(std::mem::take(&mut chunk))?;
                    }
                }
                end => {
                    loaded += self.load_chunk(chunk)?;
                    self.context.shared.wal.sync_through(self.context.shared.wal.tail().saturating_sub(1))?;
                    return end.map_or(Ok(loaded), |error| error.map(|_| loaded));
                }
            }
        }
    }

    /// Loads a chunk, segment by segment. Usually all records go into the last segment. Concurrent writers may have
    /// added records above the last key meanwhile; those have segments of their own.
    fn load_chunk(&self, chunk: Records) -> Result<u64> {
        let mut loaded = 0;
        while loaded < chunk.len() {
            self.check_live()?;
            let mut claim = self.store.claims.claim();
            let key = chunk.get(loaded).0;
            let at = loop {
                if let Some(at) = self.store.claim_segment(&mut claim, &self.store.locate(key)) {
                    break at;
                }
                // Another operation, such as a write-out, holds the claim.
                self.context.shared.health.check()?;
                ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
            };
            let end = at.upper.as_ref().map_or(chunk.len(), |upper| chunk.lower_bound(upper));
            self.load_into(at, chunk.part(loaded..end))?;
            loaded = end;
        }
        Ok(loaded as u64)
    }

    /// Replaces a claimed segment by its own records merged with `records`.
    fn load_into(&self, at: SegmentRange, records: Records) -> Result<()> {
        let is_last = at.upper.is_none();
        let mut unit = ReorganisationUnit::new(vec![SegmentUpdate::empty(at)]);
        unit.records = records;
        let planner = &self.reorganiser.planner;
        let plan = |unit: &ReorganisationUnit<'_>| Some(planner.plan(unit, is_last.then_some(planner.options.fill)));
        // This runs on the caller's thread. On the scheduler's threads the scheduler handles panics.
        self.context.shared.health.unless_panics("a bulk load", || self.reorganiser.rebuild(vec![unit], plan).map(drop))
    }
}
