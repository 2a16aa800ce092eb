//! Makes and opens adaptive keyspaces.

use std::sync::Arc;

use ecotone_substrate::Result;

use super::{AdaptiveOptions, blob::Blob, keyspace::AdaptiveKeyspace, pages::Pages, upkeep::Upkeep};
use crate::{
    engine::{Context, Family, Made, Root},
    lsm::{self, LsmFamily, base::Around, structure::Structure},
    tree::{Tree, TreeFamily, space::PageFile},
};

/// The parts of a keyspace, as structural records name them.
pub(super) const TABLES: u8 = 1;
pub(super) const PAGES: u8 = 2;

/// The adaptive engine.
#[derive(Debug)]
pub struct AdaptiveFamily {
    pub(super) lsm: LsmFamily,
    pub(super) tree: TreeFamily,
    /// Whether ranges are covered by chance whenever something is flushed, and what is flushed of them goes into pages
    /// by chance.
    pub(super) is_restless: bool,
}

impl AdaptiveFamily {
    /// One whose keyspaces are in a database with those of these families, and share memtables and caches with them.
    pub fn beside(lsm: &LsmFamily, tree: &TreeFamily) -> AdaptiveFamily {
        AdaptiveFamily { lsm: lsm.clone(), tree: tree.clone(), is_restless: false }
    }

    /// For tests: one that flushes where little is written, into small tables, and covers ranges by chance.
    #[doc(hidden)]
    pub fn restless() -> AdaptiveFamily {
        AdaptiveFamily { is_restless: true, ..AdaptiveFamily::beside(&LsmFamily::tiny(), &TreeFamily::default()) }
    }
}

/// What a part is told.
fn part(context: &Context, part: u8) -> Context {
    Context { part: Some(part), settings: Vec::new(), ..context.clone() }
}

impl Family for AdaptiveFamily {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        AdaptiveOptions::parse(settings).map(drop)
    }

    fn create(&self, context: Context) -> Result<(Made, Root)> {
        let options = AdaptiveOptions::parse(&context.settings)?;
        let file = PageFile::create(&context.shared.environment(), context.keyspace)?;
        let made = || {
            let keyspace = self.empty(&context, options, &file)?;
            let root = keyspace.take_checkpoint()?;
            Ok((Made::Ordered(Arc::new(keyspace)), root))
        };
        made().inspect_err(|_| {
            // What went wrong first is what the caller needs to know; a file that stays is removed at the next open.
            let _ = context.shared.storage.remove(file.id());
        })
    }

    fn open(&self, context: Context, root: &Root) -> Result<Made> {
        Ok(Made::Ordered(Arc::new(self.of_earlier_life(&context, root)?)))
    }
}

impl AdaptiveFamily {
    /// A keyspace without records, whose pages are to be in a file that was just made.
    pub(super) fn empty(
        &self,
        context: &Context,
        options: AdaptiveOptions,
        file: &PageFile,
    ) -> Result<AdaptiveKeyspace> {
        let tree = self.tree.empty(&part(context, PAGES), (options.tree, options.page_fill), file)?;
        Ok(self.keyspace(context, options, None, tree))
    }

    /// A keyspace from its root.
    pub(super) fn of_earlier_life(&self, context: &Context, root: &Root) -> Result<AdaptiveKeyspace> {
        let place = || format!("the root of keyspace {} in the manifest", context.keyspace);
        let blob = Blob::decode(&root.blob).map_err(|malformed| malformed.at(place(), 0))?;
        let (lsm, structure) = lsm::blob::decode(&blob.lsm).map_err(|malformed| malformed.at(place(), 0))?;
        let options = AdaptiveOptions { lsm, ..blob.options };
        let tree = self.tree.part(part(context, PAGES), &blob.tree, options.page_fill)?;
        Ok(self.keyspace(context, options, Some(structure.covered(blob.covers)), tree))
    }

    /// Of pages, and an empty lsm or one with this structure.
    fn keyspace(
        &self,
        context: &Context,
        options: AdaptiveOptions,
        structure: Option<Structure>,
        tree: Arc<Tree>,
    ) -> AdaptiveKeyspace {
        let upkeep = Upkeep::new(&context.shared, options.adapt, options.split);
        let is_restless = self.is_restless;
        let pages = Arc::new(Pages { tree: tree.clone(), upkeep: upkeep.clone(), insert: options.insert, is_restless });
        // The cache does not know which shape a range has, and no change of shape touches it.
        let around = Around { front: Some(tree.front()), base: Some(pages), ..Around::default() };
        let lsm = Arc::new(self.lsm.part(part(context, TABLES), options.lsm, structure, around));
        upkeep.begin(&lsm);
        AdaptiveKeyspace { lsm, tree, upkeep, options, is_restless }
    }
}
