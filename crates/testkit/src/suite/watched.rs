//! Who drives a database without threads has to run its background jobs.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use ecotone_engines::engine::{Context, Family, Made, Root, Shared};
use ecotone_substrate::{Result, storage::FileId};

/// A family that tells what its keyspaces are given, so that the driver can run background jobs.
pub struct Watched {
    family: Arc<dyn Family>,
    shared: Arc<OnceLock<Shared>>,
}

impl Watched {
    /// The family, and what its keyspaces share once there is one.
    pub fn over(family: Arc<dyn Family>) -> (Arc<dyn Family>, Arc<OnceLock<Shared>>) {
        let shared = Arc::new(OnceLock::new());
        (Arc::new(Watched { family, shared: shared.clone() }), shared)
    }
}

impl Family for Watched {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn is_ordered(&self) -> bool {
        self.family.is_ordered()
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        self.family.check(settings)
    }

    fn files(&self, context: &Context, root: &Root) -> Result<Option<Vec<FileId>>> {
        self.family.files(context, root)
    }

    fn create(&self, context: Context) -> Result<(Made, Root)> {
        self.shared.get_or_init(|| context.shared.clone());
        self.family.create(context)
    }

    fn open(&self, context: Context, root: &Root) -> Result<Made> {
        self.shared.get_or_init(|| context.shared.clone());
        self.family.open(context, root)
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.family.fmt(f)
    }
}
