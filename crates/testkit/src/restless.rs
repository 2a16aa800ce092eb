//! A restless adaptive engine: most flushes also convert a random range, and flushes write random ranges to pages. So
//! short histories have ranges in all shapes (adaptive-protocol.md, "Proofs").

use std::sync::Arc;

use ecotone_adaptive::{AdaptiveFamily, AdaptiveKeyspace};
use ecotone_engine::contract::{
    Access, Admission, AnyEngine, Capabilities, Check, Context, Cursor, Engine, EngineCheckpoint, EngineFactory,
    Operation, Ordered, Range, Record, Recover, Shared, Stats, VisitValue,
};
use ecotone_lsm::{
    LsmFamily, Split,
    keyspace::LsmKeyspace,
    observer::{FlushCandidate, ScanObserver, ScanReport},
    pages::conversion::Conversion,
};
use ecotone_substrate::{Error, Result, Seq, clock::Clock, memory::Component};
use ecotone_tree::TreeFamily;

/// The adaptive engine with small memtables and tables, whose keyspaces are restless.
#[derive(Debug)]
pub struct RestlessFamily(AdaptiveFamily);

/// An adaptive keyspace that converts a random range at most flushes.
#[derive(Debug)]
struct Restless {
    keyspace: Arc<AdaptiveKeyspace>,
    clock: Arc<dyn Clock>,
}

/// The observer of a keyspace, in front of that of the engine. In half of the flushes it chooses random ranges, if the
/// engine has the choice.
#[derive(Debug)]
pub struct RestlessObserver {
    inner: Arc<dyn ScanObserver>,
    clock: Arc<dyn Clock>,
}

impl RestlessFamily {
    /// The engine.
    pub fn tiny() -> RestlessFamily {
        let family = AdaptiveFamily::beside(&LsmFamily::tiny(), &TreeFamily::default());
        RestlessFamily(family.with_observer(RestlessObserver::wrap))
    }
}

/// With some probability, converts or reactivates a range between two random bounds of tables and paged ranges.
///
/// # Errors
///
/// Those of a conversion, but for want of space or memory, or in a keyspace that was dropped.
pub fn stir(keyspace: &LsmKeyspace, split: Split, clock: &dyn Clock) -> Result<()> {
    let (chance, bounds) = (clock.random(), keyspace.bounds());
    let at = |number: u64| bounds.get((number % bounds.len().max(1) as u64) as usize);
    let (Some(one), Some(other)) = (at(chance >> 8), at(chance >> 24)) else { return Ok(()) };
    let (lower, upper) = (one.min(other), one.max(other));
    let conversion = Conversion::of(keyspace.lsm()).expect("an adaptive keyspace has a page tier");
    let stirred = match chance % 16 {
        0..8 => conversion.convert_to_pages(split, lower, upper),
        8 => conversion.reactivate_tables(lower, upper),
        9 => conversion.convert_to_tables(lower, upper),
        _ => return Ok(()),
    };
    match stirred {
        // The keyspace may be dropped meanwhile.
        Err(Error::NoSpace { .. } | Error::Memory { .. } | Error::Closed { .. }) => Ok(()),
        stirred => stirred,
    }
}

impl RestlessObserver {
    /// Puts a restless observer in front of another one.
    pub fn wrap(inner: Arc<dyn ScanObserver>, shared: &Shared) -> Arc<dyn ScanObserver> {
        Arc::new(RestlessObserver { inner, clock: shared.clock.clone() })
    }

    fn tosses_heads(&self) -> bool {
        self.clock.random().is_multiple_of(2)
    }
}

impl ScanObserver for RestlessObserver {
    fn on_scan(&self, report: &ScanReport<'_>) {
        self.inner.on_scan(report);
    }

    fn on_tick(&self, is_idle: bool) {
        self.inner.on_tick(is_idle);
    }

    fn select_for_pages(&self, mut flush_candidates: Vec<FlushCandidate>) -> Vec<FlushCandidate> {
        // An engine that yields to writers chooses by costs.
        if !self.inner.yields_to_writers() || !self.tosses_heads() {
            return self.inner.select_for_pages(flush_candidates);
        }
        // For the observer this is a flush without candidates.
        self.inner.select_for_pages(Vec::new());
        flush_candidates.retain(|_| self.tosses_heads());
        flush_candidates
    }

    fn yields_to_writers(&self) -> bool {
        self.inner.yields_to_writers()
    }

    fn hot_bounds(&self) -> Vec<Vec<u8>> {
        self.inner.hot_bounds()
    }
}

impl EngineFactory for RestlessFamily {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        self.0.check(settings)
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let (keyspace, checkpoint) = self.0.create_keyspace(&context)?;
        Ok((Restless::engine(keyspace, &context), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        Ok(Restless::engine(self.0.open_keyspace(&context, checkpoint)?, &context))
    }
}

impl Restless {
    fn engine(keyspace: AdaptiveKeyspace, context: &Context) -> AnyEngine {
        AnyEngine::Ordered(Arc::new(Restless { keyspace: Arc::new(keyspace), clock: context.shared.clock.clone() }))
    }
}

impl Engine for Restless {
    fn read_into(&self, key: &[u8], access: Access, value: &mut Vec<u8>) -> Result<bool> {
        self.keyspace.read_into(key, access, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.keyspace.multi_get(keys, found)
    }

    fn throttle(&self, bytes: usize, adds: bool) -> Result<()> {
        self.keyspace.throttle(bytes, adds)
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        self.keyspace.admit(operation)
    }

    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        self.keyspace.apply(admission, seq, operation);
    }

    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        self.keyspace.try_apply(operation)
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.keyspace.first_unflushed()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.keyspace.flush(below)?;
        stir(self.keyspace.lsm(), self.keyspace.options().split, &*self.clock)
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.keyspace.checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        self.keyspace.checkpoint_is_durable();
    }

    fn verify(&self) -> Result<Check> {
        self.keyspace.verify()
    }

    fn stats(&self) -> Stats {
        self.keyspace.stats()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.keyspace.capabilities()
    }

    fn mark_dropped(&self) {
        self.keyspace.mark_dropped();
    }
}

impl Recover for Restless {
    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()> {
        self.keyspace.replay_structure(seq, body)
    }

    fn structure_recovered(&self) -> Result<()> {
        self.keyspace.structure_recovered()
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.keyspace.replay(seq, operation)
    }

    fn recovered(&self) -> Result<()> {
        self.keyspace.recovered()
    }
}

impl Ordered for Restless {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        self.keyspace.clone().cursor_in(range, memory)
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        self.keyspace.clone().bulk_load(records)
    }
}
