//! The reports of superseded versions of registers, after a history without failures (superseded.md, "Proof").

use std::collections::{BTreeMap, BTreeSet};

use super::{Act, Event, Value, registers::read_value};
use crate::suite::{ReportedVersion, Verdict};

/// Checks that no version was reported twice and that none of the last values was reported; with `all`, that every
/// other value was reported. No two writes of a history have the same value.
pub(in crate::suite) fn reported_once(
    reports: &[ReportedVersion],
    events: &[Event],
    last: &[Value],
    all: bool,
) -> Verdict {
    let written = events.iter().filter_map(|event| match event.act {
        Act::Write(value) | Act::Replace { after: value, .. } => value,
        Act::Read(_) | Act::Refused(_) => None,
    });
    let (written, last): (BTreeSet<u32>, BTreeSet<u32>) = (written.collect(), last.iter().copied().flatten().collect());
    let mut counts = BTreeMap::<u32, u32>::new();
    for (_, old) in reports.iter().map(|report| &report.version).filter(|(key, _)| key.last() == Some(&b'r')) {
        let number = read_value(Some(old))?.expect("a version has a value");
        *counts.entry(number).or_default() += 1;
    }
    for (number, count) in &counts {
        if !written.contains(number) {
            return Err(format!("version {number} was reported and never written"));
        }
        if last.contains(number) {
            return Err(format!("the newest version, {number}, was reported"));
        }
        if *count > 1 {
            return Err(format!("version {number} was reported {count} times"));
        }
    }
    match written.difference(&last).find(|number| all && !counts.contains_key(*number)) {
        Some(number) => Err(format!("version {number} is gone and was not reported")),
        None => Ok(()),
    }
}
