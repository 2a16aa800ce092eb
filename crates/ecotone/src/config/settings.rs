//! The options of an engine by name and value, and their encoding (`docs/format/manifest.md`). The manifest stores the
//! settings of an unwritten keyspace in place of an engine checkpoint.

use std::ops::Deref;

use ecotone_substrate::{
    Error,
    codec::{Malformed, Reader, Writer},
};

use crate::core::limits_check;

/// The most settings, and the most bytes of a name and of a value.
const MOST: usize = 64;
const LONGEST: usize = 1024;

/// Options of an engine by name and value, in the order in which they were set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settings(Vec<(String, String)>);

impl From<Vec<(String, String)>> for Settings {
    fn from(settings: Vec<(String, String)>) -> Self {
        Settings(settings)
    }
}

impl Settings {
    /// Sets an option. The last value of an option counts.
    pub(super) fn set(&mut self, name: String, value: String) {
        match self.0.iter_mut().find(|(there, _)| *there == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Checks that the manifest can store the settings.
    ///
    /// # Errors
    /// If there are too many of them, or a name or value is too long.
    pub(crate) fn check(&self) -> Result<(), Error> {
        limits_check::at_most("the number of options of a keyspace", MOST, self.0.len())?;
        let mut texts = self.0.iter().flat_map(|(name, value)| [name, value]);
        texts.try_for_each(|text| limits_check::at_most("the bytes of an option", LONGEST, text.len()))
    }

    /// Encodes the settings.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.varint(self.0.len() as u64);
        for (name, value) in &self.0 {
            w.prefixed(name.as_bytes()).prefixed(value.as_bytes());
        }
        w.finish()
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let count = r.varint()?;
        if count > MOST as u64 {
            return r.fail("a keyspace has too many settings");
        }
        let mut settings = Vec::new();
        for _ in 0..count {
            let (name, value) = (text(&mut r)?, text(&mut r)?);
            settings.push((name, value));
        }
        r.finish()?;
        Ok(Settings(settings))
    }
}

impl Deref for Settings {
    type Target = [(String, String)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn text(r: &mut Reader<'_>) -> Result<String, Malformed> {
    match std::str::from_utf8(r.prefixed(LONGEST)?) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => r.fail("a setting is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        pairs.iter().for_each(|(name, value)| settings.set((*name).to_owned(), (*value).to_owned()));
        settings
    }

    #[test]
    fn settings_come_back_and_nothing_else_does() {
        let settings = settings(&[("fill", "80"), ("model", "")]);
        let bytes = settings.encode();
        assert_eq!(Settings::decode(&bytes).unwrap(), settings);
        assert_eq!(Settings::decode(&Settings::default().encode()).unwrap(), Settings::default());
        (0..bytes.len()).for_each(|cut| assert!(Settings::decode(&bytes[..cut]).is_err()));
        assert!(Settings::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(Settings::decode(&[65]).is_err());
    }

    #[test]
    fn what_can_be_stored_can_be_read_and_the_rest_is_refused() {
        let many = |count| Settings((0..count).map(|number| (format!("o{number}"), number.to_string())).collect());
        let long = |bytes| settings(&[("fill", &"0".repeat(bytes))]);
        for settings in [many(64), many(65), long(LONGEST), long(LONGEST + 1)] {
            assert_eq!(settings.check().is_ok(), Settings::decode(&settings.encode()).is_ok());
        }
        assert!(many(64).check().is_ok() && long(LONGEST).check().is_ok());
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let twice = settings(&[("fill", "80"), ("model", "greedy"), ("fill", "90")]);
        assert_eq!(twice, settings(&[("fill", "90"), ("model", "greedy")]));
    }
}
