//! Sorted bulk load: full pages, straight into free space, a chunk at a time (decision 2, "Bulk load").

use ecotone_substrate::{Result, limits::PAGE};

use super::{Tree, records::Records, reorganise::Neighbourhood, store::descending};
use crate::{bulk::ascends, engine::Record};

/// Bytes of records in one chunk.
pub(super) const CHUNK: usize = 192 * PAGE;

impl Tree {
    /// Loads ascending records above every key present.
    pub(crate) fn load_sorted(self: &std::sync::Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        let mut last = self.last_key()?;
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

    /// Replaces the last segment by its own records and the chunk's.
    fn load_chunk(&self, chunk: Records) -> Result<u64> {
        let records = chunk.len() as u64;
        if chunk.is_empty() {
            return Ok(0);
        }
        self.check_live()?;
        let mut claim = self.store.claims.claim();
        let last = loop {
            let snapshot = self.store.index.snapshot();
            let last = descending(&snapshot, None, true, 1).pop().expect("there is a last segment");
            if let Some(last) = self.claim_segment(&mut claim, &last) {
                break last;
            }
            // Its holder is in the middle of a write-out.
            self.context.shared.health.check()?;
            ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
        };
        let mut hood = Neighbourhood::new(vec![last]);
        hood.records = chunk;
        let layout = |tree: &Tree, hood: &Neighbourhood| Some(tree.plan(&hood.records, hood.lower(), hood.upper(), true));
        // This is the caller's thread; what panics on the scheduler's is seen to there.
        self.context.shared.health.unless_panics("a bulk load", || self.rebuild(vec![hood], layout))?;
        Ok(records)
    }
}
