//! The observer of a keyspace: passes the reports of scans and flushes to the controller, and chooses the records that
//! flushes write to pages by the option `insert` (adaptive.md, "Flush").

use std::sync::Arc;

use ecotone_lsm::observer::{FlushCandidate, ScanObserver, ScanReport};

use super::{controller::Controller, insert::Insert};

/// What the lsm reports to, in front of the controller.
#[derive(Debug)]
pub(super) struct Observer {
    pub(super) controller: Arc<Controller>,
    pub(super) insert: Insert,
}

impl ScanObserver for Observer {
    fn on_scan(&self, report: &ScanReport<'_>) {
        self.controller.on_scan(report);
    }

    fn on_tick(&self, is_idle: bool) {
        self.controller.on_tick(is_idle);
    }

    fn select_for_pages(&self, flush_candidates: Vec<FlushCandidate>) -> Vec<FlushCandidate> {
        self.controller.on_flush();
        match self.insert {
            Insert::Batch => Vec::new(),
            Insert::Tree => flush_candidates,
            Insert::Auto => self.controller.select_for_pages(flush_candidates),
        }
    }

    fn yields_to_writers(&self) -> bool {
        self.insert == Insert::Auto
    }

    fn hot_bounds(&self) -> Vec<Vec<u8>> {
        self.controller.hot_bounds()
    }
}
