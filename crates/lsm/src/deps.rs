//! The parts around the tables of a keyspace. Another engine keeps them, or tests do.

use std::sync::Arc;

use ecotone_engine::{record_cache::RecordCache, superseded::SupersededReports};

use crate::{observer::ScanObserver, pages::tier::PageTier};

/// The parts around the tables of a keyspace, where it has them.
#[derive(Debug, Clone, Default)]
pub struct LsmDeps {
    /// The record cache in front of the tables.
    pub record_cache: Option<Arc<dyn RecordCache>>,
    /// The page tier below the tables.
    pub page_tier: Option<Arc<dyn PageTier>>,
    /// Gets the reports of scans and flushes.
    pub observer: Option<Arc<dyn ScanObserver>>,
    /// Reports superseded versions.
    pub(crate) reports: SupersededReports,
}

impl LsmDeps {
    /// A record cache in front of the tables, a page tier below them, and an observer beside them.
    pub fn new(
        record_cache: Arc<dyn RecordCache>,
        page_tier: Arc<dyn PageTier>,
        observer: Arc<dyn ScanObserver>,
    ) -> LsmDeps {
        LsmDeps {
            record_cache: Some(record_cache),
            page_tier: Some(page_tier),
            observer: Some(observer),
            ..LsmDeps::default()
        }
    }
}
