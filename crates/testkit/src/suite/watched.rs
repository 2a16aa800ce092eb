//! An engine factory that exposes what its keyspaces are given. The driver of a database without threads needs that to
//! run background jobs.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use ecotone_engine::{
    contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory, Shared},
    superseded::Superseded,
};
use ecotone_substrate::{Result, storage::FileId};

/// An engine factory that records what its keyspaces are given, so that the driver can run background jobs.
pub struct ObservedFactory {
    family: Arc<dyn EngineFactory>,
    shared: Arc<OnceLock<Shared>>,
    superseded: Option<Arc<dyn Superseded>>,
}

impl ObservedFactory {
    /// The factory, and what its keyspaces share once there is one.
    pub fn over(family: Arc<dyn EngineFactory>) -> (Arc<dyn EngineFactory>, Arc<OnceLock<Shared>>) {
        ObservedFactory::reporting(family, None)
    }

    /// The same; its keyspaces report superseded versions to a listener.
    pub fn reporting(
        family: Arc<dyn EngineFactory>,
        superseded: Option<Arc<dyn Superseded>>,
    ) -> (Arc<dyn EngineFactory>, Arc<OnceLock<Shared>>) {
        let shared = Arc::new(OnceLock::new());
        (Arc::new(ObservedFactory { family, shared: shared.clone(), superseded }), shared)
    }

    fn observe(&self, mut context: Context) -> Context {
        context.shared.superseded.clone_from(&self.superseded);
        self.shared.get_or_init(|| context.shared.clone());
        context
    }
}

impl EngineFactory for ObservedFactory {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn is_ordered(&self) -> bool {
        self.family.is_ordered()
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        self.family.check(settings)
    }

    fn files(&self, context: &Context, checkpoint: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        self.family.files(context, checkpoint)
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        self.family.create(self.observe(context))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        self.family.open(self.observe(context), checkpoint)
    }
}

impl fmt::Debug for ObservedFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.family.fmt(f)
    }
}
