//! Makes a row of the measurements of a phase.

use hdrhistogram::Histogram;

use super::{options::RunOptions, run::Measured, state::State, workload::distribution};
use crate::row::{Latency, Load, Row, Shape, StoreKind};

/// The store's size at the end.
pub(crate) struct Footprint {
    /// Mean bytes of a key.
    pub(crate) key_size: f64,
    pub(crate) memory_peak: u64,
    pub(crate) size_on_disk: u64,
    pub(crate) open_seconds: f64,
}

/// The row of one measurement with these options.
pub(crate) fn row(
    options: &RunOptions,
    state: &State,
    measured: Measured,
    footprint: &Footprint,
    load: Option<Load>,
) -> Row {
    let (device, kernel) = (Device::new(options.store, &measured), measured.kernel);
    let Measured { outcome, stats, cpu, workload, warmup, .. } = measured;
    let shape = options.shape(workload);
    let is_point = |_: &f64| workload.reads_points();
    let live_bytes = state.existing as f64 * (footprint.key_size + options.value_size as f64);
    Row {
        store: options.store,
        workload,
        distribution: shape,
        theta: options.theta,
        stretch: (shape == Shape::Stretch).then_some(options.stretch),
        trace: options.trace.as_ref().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned()),
        records: state.loaded,
        key_size: footprint.key_size,
        value_size: options.value_size as u64,
        threads: u64::from(options.threads),
        batch: u64::from(options.batch),
        rate: options.rate,
        durability: options.durability,
        warmup_operations: warmup,
        operations: outcome.operations,
        seconds: outcome.seconds,
        ops_per_second: outcome.per_second(),
        latency_us: latency(&outcome.latency),
        device_reads: device.reads,
        device_writes: device.writes,
        read_bytes: device.read_bytes,
        write_bytes: device.write_bytes,
        kernel_device_reads: kernel.and_then(|kernel| kernel.reads),
        kernel_device_writes: kernel.and_then(|kernel| kernel.writes),
        kernel_read_bytes: kernel.map(|kernel| kernel.read_bytes),
        kernel_write_bytes: kernel.map(|kernel| kernel.write_bytes),
        user_read_bytes: outcome.traffic.read,
        user_write_bytes: outcome.traffic.written,
        device_reads_per_op: device.reads.map(|reads| reads as f64 / outcome.operations.max(1) as f64),
        ideal_device_reads_per_op: ideal(options, shape, state.loaded, footprint.key_size).filter(is_point),
        read_amplification: ratio(device.read_bytes, outcome.traffic.read),
        write_amplification: ratio(device.write_bytes, outcome.traffic.written),
        space_amplification: footprint.size_on_disk as f64 / live_bytes,
        size_on_disk: footprint.size_on_disk,
        memory_budget: options.memory,
        memory_peak: footprint.memory_peak,
        index_bytes: stats.index_bytes,
        cpu_seconds: cpu.as_secs_f64(),
        open_seconds: footprint.open_seconds,
        longest_stall_us: outcome.longest_stall.as_secs_f64() * 1e6,
        load,
        engine: stats.engine.into_iter().map(|(name, number)| (name, number.value())).collect(),
        latency_cdf: cdf(&outcome.latency),
        timeline: outcome.timeline,
    }
}

/// The percentiles of a histogram of nanoseconds.
fn latency(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile| microseconds(histogram, quantile);
    let max = histogram.max() as f64 / 1e3;
    Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999), p9999: at(0.9999), max, mean: histogram.mean() / 1e3 }
}

/// Requests and bytes of the measured phase: the store's own counts, or else the kernel's.
struct Device {
    reads: Option<u64>,
    writes: Option<u64>,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
}

impl Device {
    fn new(store: StoreKind, measured: &Measured) -> Self {
        let (stats, kernel) = (&measured.stats, measured.kernel);
        if store.counts_device_io() {
            return Device {
                reads: measured.device_reads(store),
                writes: Some(stats.device_writes),
                read_bytes: Some(stats.read_bytes),
                write_bytes: Some(stats.write_bytes),
            };
        }
        Device {
            reads: measured.device_reads(store),
            writes: kernel.and_then(|kernel| kernel.writes),
            read_bytes: kernel.map(|kernel| kernel.read_bytes),
            write_bytes: kernel.map(|kernel| kernel.write_bytes),
        }
    }
}

/// Bytes of the device for each byte of the user; `None` if the user moved none.
fn ratio(device: Option<u64>, user: u64) -> Option<f64> {
    device.filter(|_| user > 0).map(|device| device as f64 / user as f64)
}

/// The miss ratio of a cache that holds the hottest records in the whole budget, without overhead.
fn ideal(options: &RunOptions, shape: Shape, records: u64, key_size: f64) -> Option<f64> {
    let kept = (options.memory as f64 / (key_size + options.value_size as f64)) as u64;
    distribution::ideal_miss(shape, records, options.theta, kept)
}

/// Points of the latency distribution: as many between 0 and 0.9 as between 0.9 and 0.99, and so on up to 0.9999.
fn cdf(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    const STEPS: i32 = 60;
    let quantiles = (0..=STEPS).map(|step| 1.0 - 10f64.powf(-4.0 * f64::from(step) / f64::from(STEPS)));
    quantiles.map(|quantile| (quantile, microseconds(histogram, quantile))).collect()
}

fn microseconds(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_of_latencies_rises_and_reaches_its_tail() {
        let mut histogram = crate::measure::phase::stopwatch::histogram();
        (1..=100_000u64).for_each(|latency| histogram.record(latency * 1000).unwrap());
        let points = cdf(&histogram);
        assert_eq!((points.len(), points[0].0), (61, 0.0));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        let (quantile, latency) = points[60];
        assert!((quantile - 0.9999).abs() < 1e-9 && (latency / 99_990.0 - 1.0).abs() < 1e-3, "{quantile} {latency}");
    }
}
