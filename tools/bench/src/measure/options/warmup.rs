//! The length of a warm-up, as `--warmup` says it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The length of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Warmup {
    /// This many operations.
    Operations(u64),
    /// As many operations as fit into this many seconds.
    Seconds(u32),
    /// Until the device reads of an operation no longer fall.
    Steady,
    /// Every record is read once.
    All,
}

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "steady" => Ok(Warmup::Steady),
            "all" => Ok(Warmup::All),
            _ => {
                let parsed = match text.strip_suffix('s') {
                    Some(seconds) => seconds.parse().map(Warmup::Seconds),
                    None => text.parse().map(Warmup::Operations),
                };
                parsed.map_err(|_| {
                    format!("{text:?} is neither `steady` nor `all` nor a number of operations or of seconds as in 60s")
                })
            }
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Operations(operations) => operations.fmt(f),
            Warmup::Seconds(seconds) => write!(f, "{seconds}s"),
            Warmup::Steady => f.write_str("steady"),
            Warmup::All => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for text in ["steady", "all", "0", "12345", "60s"] {
            assert_eq!(text.parse::<Warmup>().unwrap().to_string(), text);
        }
        assert!("-1".parse::<Warmup>().unwrap_err().contains("steady") && "-1s".parse::<Warmup>().is_err());
    }
}
