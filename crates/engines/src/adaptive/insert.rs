//! How what is flushed of a range that is pages alone gets into these: at once, or by a run above them that is absorbed later (A10; decision 14, "Writing").

use ecotone_substrate::{Error, Result};

use super::price;
use crate::engine::Hint;

/// What can be chosen when a keyspace is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Insert {
    /// Whatever is cheaper, told at each flush and for each range.
    #[default]
    Auto,
    /// By runs.
    Batch,
    /// At once, whatever that costs and whoever waits.
    Tree,
}

/// By their codes in a root.
const ALL: [(&str, Insert); 3] = [("auto", Insert::Auto), ("batch", Insert::Batch), ("tree", Insert::Tree)];

impl Insert {
    /// The one of a name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn parse(name: &str) -> Result<Insert> {
        let found = ALL.iter().find(|(its, _)| *its == name).map(|(_, insert)| *insert);
        found.ok_or_else(|| Error::Invalid(format!("the option insert is auto, batch or tree, not {name:?}")))
    }

    /// What stands for it in a root.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    /// The one that a code stands for.
    pub(super) fn of(code: u8) -> Option<Insert> {
        ALL.get(usize::from(code)).map(|(_, insert)| *insert)
    }
}

/// Whether a range gets what a flush has of it at once, which costs so many nanoseconds: as many scans as began there since the last flush would lose more than that to
/// a run above its pages, should it go on like this.
pub(super) fn pays(hint: Hint, scans: f64, cost: f64) -> bool {
    match hint {
        Hint::ReadMostly => true,
        Hint::WriteMostly => false,
        Hint::Auto => scans * price::RUN >= cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_a_code() {
        for (code, (name, insert)) in ALL.into_iter().enumerate() {
            assert_eq!((Insert::of(code as u8), usize::from(insert.code())), (Some(insert), code));
            assert_eq!(Insert::parse(name).unwrap(), insert);
        }
        assert!(Insert::of(3).is_none() && Insert::parse("").is_err());
    }

    #[test]
    fn scans_have_to_lose_more_than_it_costs_unless_somebody_knows_better() {
        assert!(pays(Hint::Auto, 1000.0, 1000.0 * price::RUN) && !pays(Hint::Auto, 999.0, 1000.0 * price::RUN));
        assert!(pays(Hint::ReadMostly, 0.0, 1e12) && !pays(Hint::WriteMostly, 1e12, 1.0));
    }
}
