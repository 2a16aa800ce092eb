//! The engine trait of a lazy engine. Before the first write it acts as an empty engine.

use ecotone_engine::contract::{
    Admission, Check, Engine, EngineCheckpoint, Operation, Progress, SampledStats, Stats, VisitValue,
};
use ecotone_substrate::{Result, Seq};

use super::LazyEngine;

impl Engine for LazyEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.open()?.map_or(Ok(None), |made| made.engine().get(key))
    }

    fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.open()?.map_or(Ok(None), |made| made.engine().get_for_update(key))
    }

    #[inline]
    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.open()? {
            Some(made) => made.engine().get_into(key, value),
            None => {
                value.clear();
                Ok(false)
            }
        }
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        match self.open()? {
            Some(made) => made.engine().multi_get(keys, found),
            None => {
                (0..keys.len()).for_each(|number| found(number, None));
                Ok(())
            }
        }
    }

    fn throttle(&self, bytes: usize, adds: bool) -> Result<()> {
        self.make()?.engine().throttle(bytes, adds)
    }

    #[inline]
    fn admit(&self, operation: Operation<'_>) -> Result<Admission> {
        self.make()?.engine().admit(operation)
    }

    #[inline]
    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>) {
        self.there().expect("it has admitted").apply(admission, seq, operation);
    }

    #[inline]
    fn overwrite(&self, operation: Operation<'_>) -> bool {
        self.there().is_some_and(|engine| engine.overwrite(operation))
    }

    fn cancel(&self, admission: Admission) {
        self.there().expect("it has admitted").cancel(admission);
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.there()?.first_unflushed()
    }

    fn begin_flush(&self, below: Seq) {
        self.there().into_iter().for_each(|engine| engine.begin_flush(below));
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.there().map_or(Ok(()), |engine| engine.flush(below))
    }

    fn reclaimable_deletes(&self) -> u64 {
        self.there().map_or(0, Engine::reclaimable_deletes)
    }

    fn before_close(&self) -> Result<()> {
        self.there().map_or(Ok(()), Engine::before_close)
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.make()?.engine().checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        self.there().into_iter().for_each(Engine::checkpoint_is_durable);
    }

    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()> {
        if self.replay_first(seq, body)? {
            return self.open().map(drop);
        }
        self.make()?.engine().replay_structure(seq, body)
    }

    fn structure_recovered(&self) -> Result<()> {
        self.there().map_or(Ok(()), Engine::structure_recovered)
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.replay_operation(seq, operation)
    }

    fn recovered(&self) -> Result<()> {
        self.there().map_or(Ok(()), Engine::recovered)
    }

    fn compact(&self, progress: &mut Progress<'_>) -> Result<bool> {
        self.open()?.map_or(Ok(false), |made| made.engine().compact(progress))
    }

    fn verify(&self) -> Result<Check> {
        self.open()?.map_or_else(|| Ok(Check::default()), |made| made.engine().verify())
    }

    fn stats(&self) -> Stats {
        // Counters must not open an engine that is not in use.
        self.there().map_or_else(Stats::new, Engine::stats)
    }

    fn sampled_stats(&self) -> Result<Option<SampledStats>> {
        self.open()?.map_or(Ok(None), |made| made.engine().sampled_stats())
    }

    fn mark_dropped(&self) {
        // Holds the lock, so that no other thread creates the engine meanwhile.
        let _stored = self.stored.lock();
        self.retired.store(true, std::sync::atomic::Ordering::Release);
        self.there().into_iter().for_each(Engine::mark_dropped);
    }
}
