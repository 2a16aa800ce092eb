//! Options of engines by name and value: the settings that command lines give and that the manifest stores. The options
//! struct of each engine reads and writes its settings as [`EngineOptions`].

use std::{fmt::Display, ops::RangeInclusive, result, str::FromStr};

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader},
};

/// Options by name and value.
pub type Settings = Vec<(String, String)>;

/// The options struct of an engine, which is read from settings and written to them.
#[doc(hidden)]
pub trait EngineOptions: Default {
    /// Sets an option by its name.
    ///
    /// # Errors
    /// If there is no such option, or the value is out of its range.
    fn set(self, name: &str, value: &str) -> Result<Self>;

    /// All options by name, as [`set`](Self::set) takes them.
    fn values(&self) -> Vec<(&'static str, String)>;

    /// Parses settings. An option that is not named keeps its default.
    ///
    /// # Errors
    /// Those of [`set`](Self::set).
    fn parse(settings: &[(String, String)]) -> Result<Self> {
        settings.iter().try_fold(Self::default(), |options, (name, value)| options.set(name, value))
    }

    /// The options that differ from the defaults. The others are not stored before the keyspace is first written to, so
    /// a new default would change keyspaces of older versions: it needs an option of a new name.
    fn settings(&self) -> Settings {
        let values = self.values().into_iter().zip(Self::default().values());
        values.filter(|(value, default)| value != default).map(|((name, value), _)| (name.to_owned(), value)).collect()
    }

    /// Checks that each option is in its range.
    ///
    /// # Errors
    /// If one is not; the error names it and the range.
    fn check(&self) -> Result<()> {
        Self::parse(&self.settings()).map(drop)
    }
}

/// Gives a kind of option value that has `ALL` and `name` its [`Display`] and [`FromStr`]. The literal is the name of
/// the option.
#[macro_export]
macro_rules! option_value {
    ($kind:ty, $option:literal) => {
        impl ::std::fmt::Display for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $kind {
            type Err = ::ecotone_substrate::Error;

            fn from_str(value: &str) -> ::ecotone_substrate::Result<Self> {
                $crate::options::one_of($option, value, &<$kind>::ALL.map(|kind| (kind.name(), kind)))
            }
        }
    };
}

/// Parses the value of the option `name`: a number in `range`. `what` says in errors what it is: "a number".
///
/// # Errors
/// If the value is something else.
pub fn number<T: FromStr + PartialOrd + Display>(
    (name, value): (&str, &str),
    what: &str,
    range: &RangeInclusive<T>,
) -> Result<T> {
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    parsed.ok_or_else(|| refused(name, value, &format!("{what} from {least} to {most}")))
}

/// Parses the value of the option `name`: one of these names.
///
/// # Errors
/// If the value is something else.
pub fn one_of<T: Copy>(name: &str, value: &str, values: &[(&'static str, T)]) -> Result<T> {
    let found = values.iter().find(|(named, _)| *named == value).map(|(_, value)| *value);
    found.ok_or_else(|| refused(name, value, &list(values.iter().map(|(named, _)| *named), "or")))
}

/// The value of an option by its number on disk, which `r` has just read. `what` is the error if there is none.
///
/// # Errors
/// If no value has this number.
pub fn by_number<T: Copy>(
    values: &[T],
    number: u8,
    r: &Reader<'_>,
    what: &'static str,
) -> result::Result<T, Malformed> {
    values.get(usize::from(number)).map_or_else(|| r.fail(what), |value| Ok(*value))
}

/// The values of an option that is on or off.
pub const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// The name of a value of [`SWITCH`].
pub fn switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// The error for an option that an engine does not have; it has those of `values`.
pub fn unknown(engine: &str, name: &str, values: &[(&'static str, String)]) -> Error {
    let known = list(values.iter().map(|(known, _)| *known), "and");
    Error::Invalid(format!("the {engine} engine has no option {name:?}; it has {known}"))
}

fn refused(name: &str, value: &str, allowed: &str) -> Error {
    Error::Invalid(format!("the option {name} is {value:?}, and must be {allowed}"))
}

/// `a, b and c`.
fn list<'a>(names: impl IntoIterator<Item = &'a str>, conjunction: &str) -> String {
    let names: Vec<_> = names.into_iter().collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {conjunction} {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
