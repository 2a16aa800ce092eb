//! Makes and opens adaptive keyspaces.

use std::sync::Arc;

use ecotone_engine::{
    contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory, Shared},
    options::EngineOptions,
};
use ecotone_lsm::{LsmFamily, deps::LsmDeps, manifest::LevelManifest, observer::ScanObserver};
use ecotone_substrate::Result;
use ecotone_tree::{Tree, TreeFamily, page_allocator::PageFile};

use super::{
    AdaptiveOptions,
    blob::Blob,
    controller::Controller,
    keyspace::{AdaptiveKeyspace, PAGES, TABLES},
    observer::Observer,
    page_tier::TreePages,
};

/// Wraps the observer of a keyspace.
pub type WrapObserver = fn(Arc<dyn ScanObserver>, &Shared) -> Arc<dyn ScanObserver>;

/// The adaptive engine.
#[derive(Debug)]
pub struct AdaptiveFamily {
    lsm: LsmFamily,
    tree: TreeFamily,
    /// Wraps the observer of each keyspace.
    wrap_observer: WrapObserver,
}

impl AdaptiveFamily {
    /// A factory whose keyspaces share memtables and caches with those of these factories.
    pub fn beside(lsm: &LsmFamily, tree: &TreeFamily) -> AdaptiveFamily {
        AdaptiveFamily { lsm: lsm.clone(), tree: tree.clone(), wrap_observer: |observer, _| observer }
    }

    /// The same with a wrapper around the observer of each keyspace, which sees and answers all that the observer does.
    pub fn with_observer(self, wrap_observer: WrapObserver) -> AdaptiveFamily {
        AdaptiveFamily { wrap_observer, ..self }
    }
}

/// The context of one part.
fn part(context: &Context, part: u8) -> Context {
    Context { sub_engine: Some(part), settings: Vec::new(), ..context.clone() }
}

impl EngineFactory for AdaptiveFamily {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        AdaptiveOptions::parse(settings).map(drop)
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let (keyspace, checkpoint) = self.create_keyspace(&context)?;
        Ok((AnyEngine::Ordered(Arc::new(keyspace)), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        Ok(AnyEngine::Ordered(Arc::new(self.open_keyspace(&context, checkpoint)?)))
    }
}

impl AdaptiveFamily {
    /// As [`EngineFactory::create`].
    ///
    /// # Errors
    /// If an option is wrong, or I/O fails.
    pub fn create_keyspace(&self, context: &Context) -> Result<(AdaptiveKeyspace, EngineCheckpoint)> {
        let options = AdaptiveOptions::parse(&context.settings)?;
        let file = PageFile::create(&context.shared.environment(), context.keyspace)?;
        let made = || {
            let keyspace = self.empty(context, options, &file)?;
            let checkpoint = keyspace.take_checkpoint()?;
            Ok((keyspace, checkpoint))
        };
        made().inspect_err(|_| {
            // The caller needs the first error. If the removal fails, the next opening removes the file.
            let _ = context.shared.storage.remove(file.id());
        })
    }

    /// A keyspace without records, with its pages in this new file.
    pub(super) fn empty(
        &self,
        context: &Context,
        options: AdaptiveOptions,
        file: &PageFile,
    ) -> Result<AdaptiveKeyspace> {
        let tree = self.tree.empty(&part(context, PAGES), (options.tree, options.page_fill), file)?;
        Ok(self.keyspace(context, options, None, tree))
    }

    /// As [`EngineFactory::open`].
    ///
    /// # Errors
    /// If the checkpoint is invalid, or I/O fails.
    pub fn open_keyspace(&self, context: &Context, checkpoint: &EngineCheckpoint) -> Result<AdaptiveKeyspace> {
        let place = || format!("the root of keyspace {} in the manifest", context.keyspace);
        let blob = Blob::decode(&checkpoint.blob).map_err(|malformed| malformed.at(place(), 0))?;
        let (lsm, manifest) = ecotone_lsm::blob::decode(&blob.lsm).map_err(|malformed| malformed.at(place(), 0))?;
        let options = AdaptiveOptions { lsm, ..blob.options };
        let tree = self.tree.open_tree(part(context, PAGES), &blob.tree, options.page_fill)?;
        Ok(self.keyspace(context, options, Some(manifest.with_paged_ranges(blob.paged_ranges)), tree))
    }

    /// A keyspace of this tree, and of an empty lsm or one with this manifest.
    fn keyspace(
        &self,
        context: &Context,
        options: AdaptiveOptions,
        manifest: Option<LevelManifest>,
        tree: Arc<Tree>,
    ) -> AdaptiveKeyspace {
        let controller = Controller::new(&context.shared, options.adapt, options.split);
        let page_tier = Arc::new(TreePages { tree: tree.clone() });
        let observer = Arc::new(Observer { controller: controller.clone(), insert: options.insert });
        let observer = (self.wrap_observer)(observer, &context.shared);
        // The cache is independent of the form of a range, and no conversion touches it.
        let deps = LsmDeps::new(tree.record_cache(), page_tier, observer);
        let lsm = Arc::new(self.lsm.part(part(context, TABLES), options.lsm, manifest, deps));
        controller.begin(&lsm);
        AdaptiveKeyspace { lsm, tree, controller, options }
    }
}
