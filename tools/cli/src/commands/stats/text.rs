//! Formats statistics for people.

use std::collections::BTreeSet;

use comfy_table::{Table, presets::NOTHING};
use ecotone::{Counters, RangeShape, SampledStats, SegmentCount, limits::PAGE};

use super::report::{KeyspaceReport, StatsReport};
use crate::text::escape;

/// Two columns: name and amount. The first six lines are the summary; `all` adds the rest.
pub(super) fn of(look: &StatsReport, all: bool) -> Table {
    let mut lines = Lines::default();
    summary(look, &mut lines);
    if all {
        whole(look, &mut lines);
        look.keyspaces.iter().for_each(|shape| keyspace(shape, &mut lines));
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (what, how_much) in lines.0 {
        table.add_row([what, how_much]);
    }
    table
}

#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn head(&mut self, what: impl Into<String>, how_much: impl Into<String>) {
        self.0.push((what.into(), how_much.into()));
    }

    fn line(&mut self, what: &str, how_much: impl Into<String>) {
        self.head(format!("  {what}"), how_much);
    }
}

fn summary(look: &StatsReport, lines: &mut Lines) {
    let stats = &look.stats;
    lines.head("keyspaces", names(&look.keyspaces));
    lines.head("records", format!("about {}", count(look.keyspaces.iter().map(KeyspaceReport::records).sum())));
    lines.head("disk", format!("{} in all files", size(look.disk_bytes)));
    lines.head("memory", format!("{} held of a budget of {}", size(stats.memory_held), size(stats.memory_budget)));
    lines.head("log", format!("{} for the next opening to replay", size(stats.log.used_bytes)));
    lines.head("state", state(stats));
}

/// At most this many keyspaces are named; the others are only counted.
const NAMED: usize = 8;

fn names(keyspaces: &[KeyspaceReport]) -> String {
    let mut names: Vec<String> =
        keyspaces.iter().take(NAMED).map(|shape| format!("{} ({})", shape.stats.name, shape.stats.engine)).collect();
    match keyspaces.len() {
        0 => names.push("none".to_owned()),
        all if all > NAMED => names.push(format!("and {} more", count((all - NAMED) as u64))),
        _ => {}
    }
    names.join(", ")
}

fn state(stats: &ecotone::Stats) -> String {
    match (&stats.failure, &stats.postponed_last) {
        (Some(failure), _) => format!("writing has stopped: {failure}"),
        (None, Some(last)) => format!("background work was put off {} times, last {last}", count(stats.postponed)),
        (None, None) => "good".to_owned(),
    }
}

fn whole(look: &StatsReport, lines: &mut Lines) {
    let stats = &look.stats;
    lines.head("memory by component", "");
    stats.memory.iter().for_each(|part| lines.line(part.component, size(part.bytes)));
    let (weight, limit) = (size(stats.log.distinct_bytes), size(stats.log.limit_bytes));
    lines.head("log in detail", format!("{weight} of distinct records, limit {limit}"));
    let (waits, delays) = (count(stats.log.waits), count(stats.log.delays));
    lines.line("writers", format!("{waits} waits, {delays} delays of {} µs in all", count(stats.log.delay_total_us)));
    lines.head("device requests", io(&stats.io));
    stats.io_by_file.iter().for_each(|(kind, of)| lines.line(kind, io(of)));
    lines.head("background jobs", count(stats.background_jobs));
}

fn io(io: &Counters) -> String {
    let (read, written) = (size(io.read_bytes), size(io.write_bytes));
    format!("{} reads of {read}, {} writes of {written}, {} syncs", count(io.reads), count(io.writes), count(io.syncs))
}

fn keyspace(shape: &KeyspaceReport, lines: &mut Lines) {
    lines.head(format!("keyspace {} ({})", shape.stats.name, shape.stats.engine), "");
    let mut known = BTreeSet::new();
    if let Some(survey) = &shape.survey {
        pages(shape, survey, lines);
    }
    shape.ranges.iter().for_each(|range| of_range(range, lines));
    for (what, names) in GROUPS {
        let numbers: Vec<String> =
            names.iter().filter_map(|(name, says)| Some(says.of(shape.counter(name)?))).collect();
        known.extend(names.iter().map(|(name, _)| *name));
        if !numbers.is_empty() {
            lines.line(what, numbers.join(", "));
        }
    }
    let others = shape.stats.counters.iter().filter(|(name, _)| !known.contains(name));
    others.for_each(|(name, number)| lines.line(&name.replace('_', " "), count(*number)));
}

/// At most this many bytes of a key are shown.
const SHOWN: usize = 24;

fn of_range(range: &RangeShape, lines: &mut Lines) {
    let key = |key: &[u8]| {
        let shown = String::from_utf8_lossy(&escape(&key[..key.len().min(SHOWN)])).into_owned();
        if key.len() > SHOWN { format!("{shown}…") } else { shown }
    };
    let bounds = format!("{} from {} to {}", range.shape, key(&range.lower), key(&range.upper));
    let bytes = format!("{} of pages, {} of tables", size(range.page_bytes), size(range.table_bytes));
    let why = range.reason.map_or_else(String::new, |reason| format!(", by {reason}"));
    let price =
        if range.threshold_seconds > 0.0 { format!(" of {:.3} s", range.threshold_seconds) } else { String::new() };
    let scans = format!("{} scans lost {:.3} s{price}{why}", count(range.scans as u64), range.read_cost_seconds);
    lines.line("range", format!("{bounds}: {bytes}; {scans}"));
}

fn pages(shape: &KeyspaceReport, survey: &SampledStats, lines: &mut Lines) {
    let SampledStats { sampled_pages, sampled_fill_bytes, sampled_records, .. } = *survey;
    if let (Some(records), Some(bytes)) = (shape.sampled_records(), shape.record_bytes()) {
        lines.line("records", format!("about {}, with {} of keys and values", count(records), size(bytes)));
    }
    if let Some(amplification) = shape.space_amplification() {
        lines.line("space amplification", format!("{amplification:.2} bytes on disk for a byte of records"));
    }
    for SegmentCount { placement, pages, segments } in &survey.segments {
        lines.line("segments", format!("{} of {pages} pages, {placement}", count(*segments)));
    }
    if sampled_pages > 0 {
        let fill = sampled_fill_bytes as f64 / (sampled_pages as usize * PAGE) as f64 * 100.0;
        let each = sampled_records as f64 / sampled_pages as f64;
        let of = format!("{} of {} pages looked at", count(sampled_pages), count(survey.pages));
        lines.line("fill of a page", format!("{fill:.1}%, {each:.1} records ({of})"));
    }
}

/// How a counter is formatted, and the text after it.
enum Says {
    Count(&'static str),
    Size(&'static str),
    /// One of these names, by its position.
    Name(&'static [&'static str]),
}

impl Says {
    fn of(&self, number: u64) -> String {
        match self {
            Says::Count(what) => format!("{} {what}", count(number)),
            Says::Size(what) => format!("{} {what}", size(number)),
            Says::Name(names) => names.get(number as usize).map_or_else(|| count(number), |name| (*name).to_owned()),
        }
    }
}

use Says::{Count, Name, Size};

/// The lines of a keyspace, each with the counters that it shows. A counter that is in none of them gets its own line.
const GROUPS: [(&str, &[(&str, Says)]); 12] = [
    (
        "space",
        &[("file_bytes", Size("in the file")), ("used_bytes", Size("in use")), ("hole_bytes", Size("given back"))],
    ),
    (
        "index",
        &[
            ("segments", Count("segments")),
            ("overflow_pages", Count("overflow pages")),
            ("index_bytes", Size("of memory")),
        ],
    ),
    (
        "pages read",
        &[
            ("pages_read_for_gets", Count("for gets")),
            ("pages_read_for_scans", Count("for scans")),
            ("pages_read_for_write_out", Count("for write-out")),
            ("pages_read_for_reorganisation", Count("for reorganisation")),
            ("pages_read_for_index", Count("of the index")),
            ("pages_read_for_checks", Count("for checks")),
        ],
    ),
    (
        "pages written",
        &[
            ("pages_written_in_place", Count("in place")),
            ("pages_written_for_overflow", Count("for overflow")),
            ("pages_written_for_reorganisation", Count("for reorganisation")),
            ("pages_written_for_index", Count("of the index")),
        ],
    ),
    (
        "cache hits",
        &[
            ("cache_hits", Count("hits")),
            ("cache_hits_on_tombstones", Count("of them on tombstones")),
            ("cache_hits_on_dirty", Count("on what is dirty")),
            ("cache_misses", Count("misses")),
        ],
    ),
    (
        "cache records",
        &[
            ("cache_records", Count("there")),
            ("cache_dirty_records", Count("of them dirty")),
            ("cache_admitted", Count("admitted")),
            ("cache_refused", Count("refused")),
            ("cache_evictions", Count("evicted")),
        ],
    ),
    (
        "cache memory",
        &[("cache_bytes", Size("in all")), ("dirty_bytes", Size("dirty")), ("cache_slabs_moved", Count("slabs moved"))],
    ),
    (
        "pages for scans",
        &[
            ("page_cache_pages", Count("there")),
            ("page_cache_bytes", Size("in all")),
            ("page_cache_hits", Count("hits")),
            ("page_cache_misses", Count("misses")),
        ],
    ),
    (
        "blocks for scans",
        &[
            ("block_cache_pages", Count("pages there")),
            ("block_cache_bytes", Size("in all")),
            ("block_cache_hits", Count("hits")),
            ("block_cache_misses", Count("misses")),
        ],
    ),
    ("background", &[("write_outs", Count("write-outs")), ("reorganisations", Count("reorganisations"))]),
    (
        "forecast of inserts",
        &[
            ("forecast_kind", Name(&["off", "trend", "seasonal", "auto"])),
            ("forecast_error_percent", Count("percent came elsewhere")),
            ("forecast_season_epochs", Count("epochs a season")),
            ("forecast_bins", Count("bins")),
        ],
    ),
    ("writers", &[("writer_stalls", Count("stalls")), ("writer_delays", Count("delays"))]),
];

/// A number with commas.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for group in digits.as_bytes()[first..].chunks(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.extend(group.iter().map(|digit| char::from(*digit)));
    }
    text
}

/// Bytes in the largest unit that leaves a whole one.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, size};

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(count), ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1023, 1024, 3 << 19, 5 << 30].map(size),
            ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "5.0 GiB"]
        );
    }
}
