//! The axes of a chart and their ticks.

use super::super::number;

/// A range of values and the ticks in it. On a logarithmic axis both are logarithms.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The position of each tick, and its label.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis from zero, with about `wanted` round ticks.
    pub(super) fn linear(high: f64, wanted: f64, write: impl Fn(f64) -> String) -> Self {
        Axis::stepped(high, round_step(positive(high) / wanted), write)
    }

    /// An axis from zero, with ticks that are round in KiB, MiB or GiB.
    pub(super) fn bytes(high: f64, wanted: f64) -> Self {
        let unit = 1024_f64.powf((positive(high).ln() / 1024_f64.ln()).floor().max(0.0));
        Axis::stepped(high, round_step(positive(high) / unit / wanted) * unit, number::bytes)
    }

    fn stepped(high: f64, step: f64, write: impl Fn(f64) -> String) -> Self {
        let high = positive(high);
        let count = (high / step + 1e-9) as u32;
        let ticks = (0..=count).map(|tick| f64::from(tick) * step).map(|value| (value, write(value))).collect();
        Axis { low: 0.0, high, ticks }
    }

    /// An axis over positive values, by their decimal logarithms, with a small margin on both sides. Below two decades
    /// it has ticks at 2 and 5 too.
    pub(super) fn logarithmic((low, high): (f64, f64), write: impl Fn(f64) -> String) -> Self {
        let (low, high) = (low.log10() - 0.06, high.log10() + 0.06);
        let fine: &[f64] = if high - low < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = low.floor() as i32..=high.ceil() as i32;
        let ticks = decades.flat_map(|decade| fine.iter().map(move |digit| digit * 10_f64.powi(decade)));
        let inside = ticks.filter(|value| (low..=high).contains(&value.log10()));
        Axis { low, high, ticks: inside.map(|value| (value.log10(), write(value))).collect() }
    }

    /// The coordinate of a value between two coordinates.
    pub(super) fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value - self.low) / (self.high - self.low) * (to - from)
    }
}

/// Avoids an empty range, which cannot be drawn.
fn positive(high: f64) -> f64 {
    if high > 0.0 { high } else { 1.0 }
}

/// The smallest step of 1, 2 or 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * 0.999);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(written(&Axis::linear(212_345.0, 4.0, number::tick)), ["0", "100k", "200k"]);
        assert_eq!(written(&Axis::linear(0.7, 4.0, number::tick)), ["0", "0.2", "0.4", "0.6"]);
        assert_eq!(written(&Axis::bytes(237.0 * 1048576.0, 4.0)), ["0 B", "100 MiB", "200 MiB"]);
        assert_eq!(written(&Axis::linear(0.0, 4.0, number::tick)), ["0", "0.5", "1"]);
    }

    #[test]
    fn logarithms_have_ticks_at_decades() {
        let wide = Axis::logarithmic((0.4, 30_000.0), number::microseconds);
        assert_eq!(written(&wide), ["1.00 µs", "10.0 µs", "100 µs", "1.00 ms", "10.0 ms"]);
        let narrow = Axis::logarithmic((0.5, 4.0), number::times);
        assert_eq!(written(&narrow), ["0.50×", "1.00×", "2.00×"]);
        assert!((narrow.place(narrow.high, 10.0, 110.0) - 110.0).abs() < 1e-9);
    }
}
