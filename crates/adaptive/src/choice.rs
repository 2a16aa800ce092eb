//! Options with a few named values, and their codes in a checkpoint.

use ecotone_lsm::Split;
use ecotone_substrate::{Error, Result};
use ecotone_tree::PageFill;

use super::Insert;

/// An option with named values.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// The name of the option.
    const OPTION: &'static str;
    /// The values, in the order of their codes in a checkpoint.
    const VALUES: &'static [Self];

    /// The name of the value.
    fn name(self) -> &'static str;

    /// The value of this name.
    ///
    /// # Errors
    /// If no value has this name.
    fn parse(name: &str) -> Result<Self> {
        let found = Self::VALUES.iter().copied().find(|value| value.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::VALUES.iter().map(|value| value.name()).collect();
            Error::Invalid(format!("the option {} is {}, not {name:?}", Self::OPTION, names.join(" or ")))
        })
    }

    /// The code of the value in a checkpoint.
    fn code(self) -> u8 {
        Self::VALUES.iter().position(|value| *value == self).expect("all values are there") as u8
    }

    /// The value of this code.
    fn of(code: u8) -> Option<Self> {
        Self::VALUES.get(usize::from(code)).copied()
    }
}

impl Choice for Split {
    const OPTION: &'static str = "split";
    const VALUES: &'static [Split] = &[Split::Side, Split::Down];

    fn name(self) -> &'static str {
        Split::name(self)
    }
}

impl Choice for PageFill {
    const OPTION: &'static str = "page_fill";
    const VALUES: &'static [PageFill] = &[PageFill::Even, PageFill::Spread];

    fn name(self) -> &'static str {
        PageFill::name(self)
    }
}

impl Choice for Insert {
    const OPTION: &'static str = "insert";
    const VALUES: &'static [Insert] = &[Insert::Auto, Insert::Batch, Insert::Tree];

    fn name(self) -> &'static str {
        Insert::name(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<C: Choice + std::fmt::Debug>() {
        for (code, value) in C::VALUES.iter().enumerate() {
            assert_eq!((C::of(code as u8), usize::from(value.code())), (Some(*value), code));
            assert_eq!(C::parse(value.name()).unwrap(), *value);
        }
        assert!(C::of(C::VALUES.len() as u8).is_none());
        assert!(C::parse("").unwrap_err().to_string().contains(C::OPTION));
    }

    #[test]
    fn each_value_has_a_name_and_a_code() {
        check::<Split>();
        check::<PageFill>();
        check::<Insert>();
    }
}
