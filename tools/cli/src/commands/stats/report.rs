//! The statistics report of a database: counters, and sampled statistics of each keyspace.

use std::{os::unix::fs::MetadataExt, path::Path};

use ecotone::{Database, KeyspaceStats, RangeShape, SampledStats};

use crate::{failure::Failure, open_keyspace::OpenKeyspace};

/// Counters of a database, and sampled statistics of each keyspace.
pub(super) struct StatsReport {
    pub(super) stats: ecotone::Stats,
    /// Bytes that the file system has allocated to the files.
    pub(super) disk_bytes: u64,
    pub(super) keyspaces: Vec<KeyspaceReport>,
}

/// The report of one keyspace.
pub(super) struct KeyspaceReport {
    pub(super) stats: KeyspaceStats,
    pub(super) survey: Option<SampledStats>,
    pub(super) ranges: Vec<RangeShape>,
}

impl StatsReport {
    /// Collects the report of an open database.
    pub(super) fn at(database: &Database, path: &Path) -> Result<StatsReport, Failure> {
        let mut keyspaces = Vec::new();
        for info in database.keyspaces() {
            let kept = OpenKeyspace::open(database, &info)?;
            // The sample is taken first, so that the counters include its own reads.
            let survey = kept.survey()?;
            keyspaces.push(KeyspaceReport { stats: kept.stats(), survey, ranges: kept.shapes() });
        }
        let mut disk_bytes = 0;
        for file in std::fs::read_dir(path)? {
            disk_bytes += file?.metadata()?.blocks() * 512;
        }
        Ok(StatsReport { stats: database.stats(), disk_bytes, keyspaces })
    }
}

impl KeyspaceReport {
    /// A number by its name.
    pub(super) fn counter(&self, name: &str) -> Option<u64> {
        self.stats.counter(name)
    }

    /// Bytes of keys and values in all pages, scaled up from the sample.
    pub(super) fn record_bytes(&self) -> Option<u64> {
        self.survey.as_ref().and_then(|survey| scaled(survey.sampled_record_bytes, survey))
    }

    /// Estimated number of records, for any engine. Replaced and deleted records may be included. A hash index
    /// extrapolates from a sample of its entries.
    pub(super) fn records(&self) -> u64 {
        let counted = |name| self.counter(name).unwrap_or(0);
        let in_tables = counted("table_records").saturating_sub(counted("table_tombstones"));
        let hashed = counted("index_entries") + counted("base_records") + counted("delta_records");
        let dirty = counted("cache_dirty_records");
        self.sampled_records().unwrap_or(0) + in_tables + hashed + dirty
    }

    /// Records in all pages, scaled up from the sample.
    pub(super) fn sampled_records(&self) -> Option<u64> {
        self.survey.as_ref().and_then(|survey| scaled(survey.sampled_records, survey))
    }

    /// Bytes on disk for each byte of keys and values.
    pub(super) fn space_amplification(&self) -> Option<f64> {
        let taken = self.counter("file_bytes")? - self.counter("hole_bytes")?;
        self.record_bytes().filter(|bytes| *bytes > 0).map(|bytes| taken as f64 / bytes as f64)
    }
}

/// Scales a number of the sample to all pages; `None` without a sample.
fn scaled(number: u64, survey: &SampledStats) -> Option<u64> {
    (survey.sampled_pages > 0)
        .then(|| (number as f64 / survey.sampled_pages as f64 * survey.pages as f64).round() as u64)
}
