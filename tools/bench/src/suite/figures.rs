//! Figures of a row that have goals: the evenness of its scans, the rewritten bytes relative to a hot range, and the
//! cost of adapting.

use std::iter;

use serde_json::Value;

use crate::statistics::{median, range};

/// Seconds of a window.
const WINDOW: f64 = 10.0;
/// A phase has at least this many consecutive windows; a short phase has shorter windows.
const WINDOWS: f64 = 4.0;
/// Seconds of a window while a store adapts.
const MEANWHILE: f64 = 1.0;

/// Seconds since the start of a phase, and the operations up to that point.
type Moment = (f64, f64);

/// Throughput of the worst window, relative to the steady one, which is the median of the windows that begin in the
/// second half. Only for scans that follow another phase, since earlier scans find the store freshly opened.
pub(super) fn worst_window(row: &Value) -> Option<f64> {
    if row["workload"] != "e" || row["leg"].as_u64()? == 0 {
        return None;
    }
    let windows = windows(row, WINDOW)?;
    let (worst, _) = range(windows.iter().map(|(_, rate)| *rate))?;
    let half = row["seconds"].as_f64()? / 2.0;
    let steady = median(windows.iter().filter(|(begin, _)| *begin >= half).map(|(_, rate)| *rate))?;
    (steady > 0.0).then(|| worst / steady)
}

/// Bytes of the adaptations that ended in a phase, relative to the bytes of its hot range.
pub(super) fn rewritten_bytes(row: &Value) -> Option<f64> {
    let record = row["key_size"].as_f64()? + row["value_size"].as_f64()?;
    let hot = row["stretch"].as_f64()? * row["records"].as_f64()? * record;
    // Older rows have the second name.
    let bytes = ["conversion_bytes", "adapted_bytes"].iter().find_map(|name| row["engine"][name].as_f64())?;
    Some(bytes / hot)
}

/// Seconds to adapt a GB of records.
pub(super) fn adapt_seconds(row: &Value) -> Option<f64> {
    if row["workload"] != "adapt" {
        return None;
    }
    let record = row["key_size"].as_f64()? + row["value_size"].as_f64()?;
    Some(row["seconds"].as_f64()? / (row["records"].as_f64()? * record / 1e9))
}

/// Throughput of the worst second while adapting, relative to the phase before.
pub(super) fn worst_meanwhile(row: &Value) -> Option<f64> {
    let before = row["ops_per_second_before"].as_f64().filter(|before| row["workload"] == "adapt" && *before > 0.0)?;
    let (worst, _) = range(windows(row, MEANWHILE)?.iter().map(|(_, rate)| *rate))?;
    Some(worst / before)
}

/// The start of a phase, the points of its timeline, and its end.
fn moments(row: &Value) -> Option<Vec<Moment>> {
    let moment = |of: &Value| Some((of["seconds"].as_f64()?, of["operations"].as_f64()?));
    let end = moment(row)?;
    let between = row["timeline"].as_array()?.iter().filter_map(moment).filter(|(seconds, _)| *seconds < end.0);
    Some(iter::once((0.0, 0.0)).chain(between).chain([end]).collect())
}

/// Start and operations a second of the windows of a phase. A window starts at each moment that has a full window after
/// it. The length is limited so that the phase has [`WINDOWS`] windows.
fn windows(row: &Value, length: f64) -> Option<Vec<(f64, f64)>> {
    let moments = moments(row)?;
    let length = length.min(moments.last()?.0 / WINDOWS);
    let window = |first: usize| {
        let (begin, before) = moments[first];
        let (end, after) = moments[first..].iter().find(|(seconds, _)| *seconds - begin >= length)?;
        Some((begin, (*after - before) / (*end - begin)))
    };
    Some((0..moments.len()).filter_map(window).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A phase of scans, with `scans` operations in each second.
    fn phase(leg: u64, seconds: u32, scans: impl Fn(u32) -> f64) -> Value {
        let mut operations = 0.0;
        let point = |second: u32| {
            operations += scans(second);
            json!({ "seconds": second + 1, "operations": operations })
        };
        let timeline: Vec<Value> = (0..seconds).map(point).collect();
        json!({ "workload": "e", "leg": leg, "seconds": seconds, "operations": operations, "timeline": timeline })
    }

    #[test]
    fn a_wave_is_seen_in_the_worst_ten_seconds() {
        let wave = |second: u32| if (10..20).contains(&second) { 50.0 } else { 100.0 };
        assert_eq!(worst_window(&phase(2, 60, wave)), Some(0.5));
        assert_eq!(worst_window(&phase(2, 60, |_| 100.0)), Some(1.0));
        let dip = |second: u32| if second == 10 { 0.0 } else { 100.0 };
        assert_eq!(worst_window(&phase(2, 60, dip)), Some(0.9), "a second is a tenth of a window");
    }

    #[test]
    fn windows_of_a_short_phase_are_a_quarter_of_it() {
        let wave = |second: u32| if second < 2 { 50.0 } else { 100.0 };
        assert_eq!(worst_window(&phase(2, 8, wave)), Some(0.5));
        assert_eq!(worst_window(&phase(2, 0, wave)), None);
    }

    #[test]
    fn only_scans_behind_another_phase_have_a_worst_window() {
        let even = |leg| phase(leg, 60, |_| 100.0);
        let mut updates = even(1);
        updates["workload"] = json!("update");
        assert_eq!([worst_window(&even(0)), worst_window(&updates), worst_window(&json!({}))], [None; 3]);
    }

    #[test]
    fn what_it_took_to_adapt_is_told_for_a_gb_and_by_the_worst_second() {
        let mut row = phase(1, 30, |second| if second == 7 { 50.0 } else { 90.0 });
        (row["key_size"], row["value_size"], row["records"]) = (json!(20.0), json!(80), json!(5_000_000));
        assert_eq!((adapt_seconds(&row), worst_meanwhile(&row)), (None, None), "these are scans");
        row["workload"] = json!("adapt");
        assert_eq!((adapt_seconds(&row), worst_meanwhile(&row)), (Some(60.0), None), "nobody knows how it was before");
        row["ops_per_second_before"] = json!(100.0);
        assert_eq!(worst_meanwhile(&row), Some(0.5));
        assert_eq!(worst_window(&row), None);
    }

    #[test]
    fn what_is_rewritten_is_counted_in_bytes_of_the_hot_range() {
        let mut row = json!({ "stretch": 0.1, "records": 1000, "key_size": 20.0, "value_size": 128 });
        assert_eq!(rewritten_bytes(&row), None, "no engine that adapts");
        row["engine"] = json!({ "conversion_bytes": 29_600 });
        assert_eq!(rewritten_bytes(&row), Some(2.0));
        row["stretch"] = Value::Null;
        assert_eq!(rewritten_bytes(&row), None);
    }
}
