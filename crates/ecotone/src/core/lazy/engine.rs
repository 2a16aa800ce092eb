//! The engine trait of a lazy engine. Before the first write it acts as an empty engine.

use ecotone_engine::contract::{
    Access, Admission, Capabilities, Check, Engine, EngineCheckpoint, Operation, Recover, Stats, VisitValue,
};
use ecotone_substrate::{Result, Seq};

use super::LazyEngine;

impl Engine for LazyEngine {
    #[inline]
    fn read_into(&self, key: &[u8], access: Access, value: &mut Vec<u8>) -> Result<bool> {
        match self.open()? {
            Some(made) => made.engine().read_into(key, access, value),
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
    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        self.make()?.engine().admit(operation)
    }

    #[inline]
    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        self.there().expect("it has admitted").apply(admission, seq, operation);
    }

    #[inline]
    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        self.there().map_or(Ok(false), |engine| engine.try_apply(operation))
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.there()?.first_unflushed()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.there().map_or(Ok(()), |engine| engine.flush(below))
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.make()?.engine().checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        self.there().into_iter().for_each(Engine::checkpoint_is_durable);
    }

    fn verify(&self) -> Result<Check> {
        self.open()?.map_or_else(|| Ok(Check::default()), |made| made.engine().verify())
    }

    fn stats(&self) -> Stats {
        // Counters must not open an engine that is not in use.
        self.there().map_or_else(Stats::new, Engine::stats)
    }

    /// Those of an engine that is not open are not known.
    fn capabilities(&self) -> Capabilities<'_> {
        self.there().map_or_else(Capabilities::default, Engine::capabilities)
    }

    fn mark_dropped(&self) {
        // Holds the lock, so that no other thread creates the engine meanwhile.
        let _stored = self.stored.lock();
        self.retired.store(true, std::sync::atomic::Ordering::Release);
        self.there().into_iter().for_each(Engine::mark_dropped);
    }
}

impl Recover for LazyEngine {
    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()> {
        if self.replay_first(seq, body)? {
            return self.open().map(drop);
        }
        self.make()?.engine().replay_structure(seq, body)
    }

    fn structure_recovered(&self) -> Result<()> {
        self.there().map_or(Ok(()), Recover::structure_recovered)
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.replay_operation(seq, operation)
    }

    fn recovered(&self) -> Result<()> {
        self.there().map_or(Ok(()), Recover::recovered)
    }
}
