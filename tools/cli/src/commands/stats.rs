//! `ecotone stats`.

use clap::Args;
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::{Map, Value, json};

use crate::{
    failure::Failure,
    output::Output,
    place::{Place, close},
};

/// Prints memory against budget, device requests, the log, and each keyspace's numbers
///
/// The numbers are those just after opening: device requests are those of the opening itself.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    place: Place,
}

impl Stats {
    /// Prints the numbers.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let stats = database.stats();
        let mut output = Output::new();
        if self.place.json {
            output.json(&json(&stats))?;
        } else {
            output.line(&[table(&stats).trim_fmt().as_bytes()])?;
        }
        output.finish()?;
        close(database)
    }
}

fn json(stats: &ecotone::Stats) -> Value {
    let keyspace = |space: &ecotone::KeyspaceStats| {
        let counters: Map<String, Value> = space.counters.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
        json!({"name": space.name, "engine": space.engine, "counters": counters})
    };
    let memory: Map<String, Value> = stats.memory.iter().map(|part| (part.component.to_owned(), part.bytes.into())).collect();
    let (io, log) = (&stats.io, &stats.log);
    json!({
        "memory_budget": stats.memory_budget,
        "memory_held": stats.memory_held,
        "memory": memory,
        "io": {"reads": io.reads, "writes": io.writes, "read_bytes": io.read_bytes, "write_bytes": io.write_bytes, "syncs": io.syncs},
        "log": {
            "tail": log.tail, "written": log.written, "synced": log.synced,
            "used_bytes": log.used_bytes, "weight_bytes": log.weight_bytes, "limit_bytes": log.limit_bytes,
            "waits": log.waits, "delays": log.delays, "delay_total_us": log.delay_total_us,
        },
        "background_jobs": stats.background_jobs,
        "keyspaces": stats.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
        "failure": stats.failure,
    })
}

fn table(stats: &ecotone::Stats) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (name, value) in rows(stats) {
        table.add_row([name, value.map_or(String::new(), |value| value.to_string())]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn rows(stats: &ecotone::Stats) -> Vec<(String, Option<u64>)> {
    let (io, log) = (&stats.io, &stats.log);
    let named = |name: &str, value| (name.to_owned(), Some(value));
    let mut rows = vec![named("memory budget, bytes", stats.memory_budget), named("memory held, bytes", stats.memory_held)];
    rows.extend(stats.memory.iter().map(|part| named(&format!("  {}", part.component), part.bytes)));
    rows.extend([
        named("device reads", io.reads),
        named("device writes", io.writes),
        named("bytes read", io.read_bytes),
        named("bytes written", io.write_bytes),
        named("syncs", io.syncs),
        named("log, bytes to replay", log.used_bytes),
        named("log, bytes of different records", log.weight_bytes),
        named("  their limit", log.limit_bytes),
        named("log, writes that waited", log.waits),
        named("log, delays of writers", log.delays),
        named("log, delays of writers, µs", log.delay_total_us),
        named("background jobs", stats.background_jobs),
    ]);
    for space in &stats.keyspaces {
        rows.push((format!("keyspace {} ({})", space.name, space.engine), None));
        rows.extend(space.counters.iter().map(|&(name, value)| named(&format!("  {name}"), value)));
    }
    rows
}
