//! The facts at the head of a report: machine, dates and runs.

use std::{collections::BTreeSet, time::SystemTime};

use super::{machine, number, read::Results, section::Section};
use crate::{
    row::record::{MachineSpeed, RowRecord},
    statistics,
};

/// A name and its text.
pub(crate) type Fact = (&'static str, String);

/// The facts that are known.
pub(crate) fn facts(results: &Results, sections: &[Section]) -> Vec<Fact> {
    let rows: Vec<&RowRecord> = results.rows.iter().map(|found| &found.record).collect();
    let facts = [
        ("Stores", Some(stores(sections))),
        ("Suites", suites(sections)),
        ("Rows", Some(endings(&rows))),
        ("Fixed loop", over(&rows, |speed| speed.loop_ns.map(|ns| ns / 1e3), number::microseconds)),
        ("Disk reads, depth 32", over(&rows, |speed| speed.disk_reads_per_second, number::rate)),
        ("Stolen by other guests", over(&rows, |speed| speed.stolen, number::percent)),
        ("Results written", dates(results)),
        ("Files", Some(results.files.iter().map(|file| file.name.clone()).collect::<Vec<_>>().join(", "))),
        (
            "Skipped lines",
            Some(results.skipped.len()).filter(|skipped| *skipped > 0).map(|skipped| skipped.to_string()),
        ),
    ];
    facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect()
}

fn stores(sections: &[Section]) -> String {
    let mut stores = Vec::new();
    for (_, store) in sections.iter().flat_map(Section::labels) {
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    stores.join(", ")
}

fn suites(sections: &[Section]) -> Option<String> {
    let suites: Vec<&str> = sections.iter().filter_map(|section| section.suite.as_deref()).collect();
    (!suites.is_empty()).then(|| suites.join(", "))
}

fn endings(rows: &[&RowRecord]) -> String {
    let endings: BTreeSet<String> = rows.iter().map(|row| row.ending()).filter(|ending| ending != "ok").collect();
    let count = |ending: &str| rows.iter().filter(|row| row.ending() == ending).count();
    let bad = endings.iter().map(|ending| format!(", {} {ending}", count(ending)));
    format!("{} ok{}", count("ok"), bad.collect::<String>())
}

/// The median and the range of a machine measurement over the rows.
fn over(rows: &[&RowRecord], value: fn(&MachineSpeed) -> Option<f64>, show: fn(f64) -> String) -> Option<String> {
    let values = || rows.iter().flat_map(|row| machine::speeds(row)).filter_map(value);
    let (low, high) = statistics::range(values())?;
    Some(format!("median {}, from {} to {}", show(statistics::median(values())?), show(low), show(high)))
}

fn dates(results: &Results) -> Option<String> {
    let changed = || results.files.iter().filter_map(|file| file.changed);
    let show = |time: SystemTime| humantime::format_rfc3339_seconds(time).to_string();
    let (first, last) = (show(changed().min()?), show(changed().max()?));
    Some(if first == last { first } else { format!("{first} to {last}") })
}
