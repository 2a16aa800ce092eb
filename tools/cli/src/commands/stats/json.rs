//! Formats statistics for programs, as JSON.

use ecotone::{Counters, RangeShape, SampledStats, SegmentCount};
use serde_json::{Map, Value, json};

use super::report::{KeyspaceReport, StatsReport};
use crate::text::Encoding;

/// All numbers as one object.
pub(super) fn of(look: &StatsReport) -> Value {
    let stats = &look.stats;
    let memory: Map<String, Value> =
        stats.memory.iter().map(|part| (part.component.to_owned(), part.bytes.into())).collect();
    let files: Map<String, Value> = stats.io_by_file.iter().map(|(kind, of)| ((*kind).to_owned(), io(of))).collect();
    let log = &stats.log;
    json!({
        "memory_budget": stats.memory_budget,
        "memory_held": stats.memory_held,
        "memory": memory,
        "disk_bytes": look.disk_bytes,
        "io": io(&stats.io),
        "io_by_file": files,
        "log": {
            "tail": log.tail, "written": log.written, "synced": log.synced,
            "used_bytes": log.used_bytes, "distinct_bytes": log.distinct_bytes, "limit_bytes": log.limit_bytes,
            "waits": log.waits, "delays": log.delays, "delay_total_us": log.delay_total_us,
        },
        "background_jobs": stats.background_jobs,
        "postponed": stats.postponed,
        "postponed_last": stats.postponed_last,
        "keyspaces": look.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
        "failure": stats.failure,
    })
}

fn io(io: &Counters) -> Value {
    json!({"reads": io.reads, "writes": io.writes, "read_bytes": io.read_bytes, "write_bytes": io.write_bytes,
        "syncs": io.syncs})
}

fn keyspace(shape: &KeyspaceReport) -> Value {
    let stats = &shape.stats;
    let counters: Map<String, Value> =
        stats.counters.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "name": stats.name,
        "engine": stats.engine,
        "counters": counters,
        "survey": shape.survey.as_ref().map(survey),
        "ranges": shape.ranges.iter().map(range).collect::<Vec<_>>(),
        "records_estimated": shape.sampled_records(),
        "record_bytes_estimated": shape.record_bytes(),
        "space_amplification": shape.space_amplification(),
    })
}

fn range(range: &RangeShape) -> Value {
    let mut object = Map::new();
    Encoding::default().json_bytes(&mut object, "lower", &range.lower);
    Encoding::default().json_bytes(&mut object, "upper", &range.upper);
    object.insert("shape".to_owned(), range.shape.to_string().into());
    object.insert("page_bytes".to_owned(), range.page_bytes.into());
    object.insert("table_bytes".to_owned(), range.table_bytes.into());
    object.insert("scans".to_owned(), range.scans.into());
    object.insert("read_cost_seconds".to_owned(), range.read_cost_seconds.into());
    object.insert("threshold_seconds".to_owned(), range.threshold_seconds.into());
    object.insert("reason".to_owned(), range.reason.map_or_else(String::new, |reason| reason.to_string()).into());
    Value::Object(object)
}

fn survey(survey: &SampledStats) -> Value {
    let segment = |count: &SegmentCount| {
        let SegmentCount { placement, pages, segments } = count;
        json!({"placement": placement.to_string(), "pages": pages, "segments": segments})
    };
    json!({
        "segments": survey.segments.iter().map(segment).collect::<Vec<_>>(),
        "pages": survey.pages,
        "sampled_pages": survey.sampled_pages,
        "sampled_fill_bytes": survey.sampled_fill_bytes,
        "sampled_records": survey.sampled_records,
        "sampled_record_bytes": survey.sampled_record_bytes,
    })
}
