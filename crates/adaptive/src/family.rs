//! Makes and opens adaptive keyspaces.

use std::sync::Arc;

use ecotone_engine::contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory};
use ecotone_lsm::{LsmFamily, deps::LsmDeps, manifest::LevelManifest};
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

/// The adaptive engine.
#[derive(Debug)]
pub struct AdaptiveFamily {
    pub(super) lsm: LsmFamily,
    pub(super) tree: TreeFamily,
    /// For tests: whether each flush converts ranges at random, and flushes records into pages at random.
    pub(super) is_restless: bool,
}

impl AdaptiveFamily {
    /// A factory whose keyspaces share memtables and caches with those of these factories.
    pub fn beside(lsm: &LsmFamily, tree: &TreeFamily) -> AdaptiveFamily {
        AdaptiveFamily { lsm: lsm.clone(), tree: tree.clone(), is_restless: false }
    }

    /// For tests: a factory that flushes after few writes, makes small tables, and converts ranges at random.
    #[doc(hidden)]
    pub fn restless() -> AdaptiveFamily {
        AdaptiveFamily { is_restless: true, ..AdaptiveFamily::beside(&LsmFamily::tiny(), &TreeFamily::default()) }
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
        let options = AdaptiveOptions::parse(&context.settings)?;
        let file = PageFile::create(&context.shared.environment(), context.keyspace)?;
        let made = || {
            let keyspace = self.empty(&context, options, &file)?;
            let root = keyspace.take_checkpoint()?;
            Ok((AnyEngine::Ordered(Arc::new(keyspace)), root))
        };
        made().inspect_err(|_| {
            // The caller needs the first error. If the removal fails, the next opening removes the file.
            let _ = context.shared.storage.remove(file.id());
        })
    }

    fn open(&self, context: Context, root: &EngineCheckpoint) -> Result<AnyEngine> {
        Ok(AnyEngine::Ordered(Arc::new(self.open_root(&context, root)?)))
    }
}

impl AdaptiveFamily {
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

    /// A keyspace from its checkpoint.
    pub(super) fn open_root(&self, context: &Context, root: &EngineCheckpoint) -> Result<AdaptiveKeyspace> {
        let place = || format!("the root of keyspace {} in the manifest", context.keyspace);
        let blob = Blob::decode(&root.blob).map_err(|malformed| malformed.at(place(), 0))?;
        let (lsm, structure) = ecotone_lsm::blob::decode(&blob.lsm).map_err(|malformed| malformed.at(place(), 0))?;
        let options = AdaptiveOptions { lsm, ..blob.options };
        let tree = self.tree.open_tree(part(context, PAGES), &blob.tree, options.page_fill)?;
        Ok(self.keyspace(context, options, Some(structure.with_paged_ranges(blob.paged_ranges)), tree))
    }

    /// A keyspace of this tree, and of an empty lsm or one with this manifest.
    fn keyspace(
        &self,
        context: &Context,
        options: AdaptiveOptions,
        structure: Option<LevelManifest>,
        tree: Arc<Tree>,
    ) -> AdaptiveKeyspace {
        let controller = Controller::new(&context.shared, options.adapt, options.split);
        let is_restless = self.is_restless;
        let page_tier = Arc::new(TreePages { tree: tree.clone() });
        let observer = Arc::new(Observer { controller: controller.clone(), insert: options.insert, is_restless });
        // The cache is independent of the form of a range, and no conversion touches it.
        let deps = LsmDeps::new(tree.record_cache(), page_tier, observer);
        let lsm = Arc::new(self.lsm.part(part(context, TABLES), options.lsm, structure, deps));
        controller.begin(&lsm);
        AdaptiveKeyspace { lsm, tree, controller, options, is_restless }
    }
}
