//! Parses and formats amounts of memory.

/// Reads `64MiB`, `1GiB`, `512KiB` or plain bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        unit => return Err(format!("{unit:?} is no unit; there are KiB, MiB, GiB and TiB, and bytes without a unit")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} does not begin with a whole number"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too much"))
}

/// Formats bytes for people.
pub(crate) fn show(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    while amount >= 1024.0 && unit + 1 < units.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{amount:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("220MiB", 220 << 20),
            ("1GiB", 1 << 30),
            ("512KiB", 512 << 10),
            ("12345", 12345),
            ("7B", 7),
        ] {
            assert_eq!(parse(text), Ok(bytes));
        }
        for text in ["", "MiB", "64MB", "64 MiB", "-1", "1.5GiB", "99999999999TiB", "64mib"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn amounts_are_shown() {
        assert_eq!(
            (show(1023).as_str(), show(1536).as_str(), show(64 << 20).as_str()),
            ("1023 B", "1.5 KiB", "64.0 MiB")
        );
    }
}
