//! Formats numbers for people.

/// The digits of a number in groups of three.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: 1,234,567, or 0.123 when it is small.
pub(crate) fn count(number: f64) -> String {
    if number.abs() < 100.0 {
        return short(number);
    }
    let digits = grouped(&format!("{:.0}", number.abs()));
    if number < 0.0 { format!("-{digits}") } else { digits }
}

/// A number to three digits: 0.0123, 1.23, 12.3, 1,230.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => count(number.round()),
        size if size >= 9.995 => format!("{number:.1}"),
        size if size >= 0.9995 => format!("{number:.2}"),
        size if size >= 0.0995 => format!("{number:.3}"),
        size if size >= 0.0001 => format!("{number:.4}"),
        _ => format!("{number:.1e}"),
    }
}

/// A number on an axis: 250k, 1.5M.
pub(crate) fn tick(number: f64) -> String {
    let (scaled, unit) = match number {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    // Steps have at most two significant digits; rounding removes the errors of their sums.
    format!("{}{unit}", (scaled * 1e6).round() / 1e6)
}

/// Operations a second.
pub(crate) fn rate(number: f64) -> String {
    format!("{}/s", count(number))
}

/// A ratio as a multiple.
pub(crate) fn times(number: f64) -> String {
    if number.abs() >= 100.0 { format!("{}×", count(number)) } else { format!("{number:.2}×") }
}

/// A fraction in percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

/// A difference of ratios: +0.30×, −1.20×.
pub(crate) fn difference(number: f64) -> String {
    let sign = if number < 0.0 { "−" } else { "+" };
    format!("{sign}{}", times(number.abs()))
}

/// Bytes.
pub(crate) fn bytes(number: f64) -> String {
    let (mut amount, mut units) = (number, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter().peekable());
    while amount.abs() >= 1023.5
        && let Some(_) = units.next_if(|unit| *unit != "TiB")
    {
        amount /= 1024.0;
    }
    let whole = amount.fract() == 0.0 || amount.abs() >= 99.95;
    let amount = if whole { format!("{amount:.0}") } else { short(amount) };
    format!("{amount} {}", units.next().unwrap_or_default())
}

/// A time in microseconds.
pub(crate) fn microseconds(number: f64) -> String {
    match number {
        us if us < 999.5 => format!("{} µs", short(us)),
        us if us < 999_500.0 => format!("{} ms", short(us / 1e3)),
        us => format!("{} s", short(us / 1e6)),
    }
}

/// A time in seconds.
pub(crate) fn seconds(number: f64) -> String {
    if number < 1.0 { microseconds(number * 1e6) } else { format!("{} s", short(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        let counts = [0.0, 0.1234, 9.999, 99.96, 123.4, 1234.5, 1_234_567.0, -1234.0].map(count);
        assert_eq!(counts, ["0", "0.123", "10.0", "100.0", "123", "1,234", "1,234,567", "-1,234"]);
        assert_eq!([0.00005, 0.0123, 1.0, 12.34, 999.6].map(short), ["5.0e-5", "0.0123", "1.00", "12.3", "1,000"]);
        assert_eq!([0.0, 0.5, 250e3, 1.5e6, 2e9].map(tick), ["0", "0.5", "250k", "1.5M", "2G"]);
        assert_eq!([0.424, 1.0, 250.0].map(times), ["0.42×", "1.00×", "250×"]);
        assert_eq!([0.12, -3.4].map(difference), ["+0.12×", "−3.40×"]);
    }

    #[test]
    fn bytes_and_times_take_the_unit_that_fits() {
        let sizes = [0.0, 512.0, 1536.0, 220.0 * 1048576.0, 1.25 * 1073741824.0, 1023.9 * 1024.0].map(bytes);
        assert_eq!(sizes, ["0 B", "512 B", "1.50 KiB", "220 MiB", "1.25 GiB", "1.00 MiB"]);
        assert_eq!([0.5, 84.2, 1240.0, 2.1e6].map(microseconds), ["0.500 µs", "84.2 µs", "1.24 ms", "2.10 s"]);
        assert_eq!([0.14, 61.2].map(seconds), ["140 ms", "61.2 s"]);
    }
}
