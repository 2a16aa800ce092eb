//! The options of a hash keyspace, and their encoding in its root.

use std::ops::RangeInclusive;

use ecotone_engine::{
    option_value,
    options::{self, EngineOptions, SWITCH, by_number, number, one_of, switch},
};
use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader, Writer},
};

/// Range of the disk budget in bytes. Space is reserved in units of a MiB, and some is kept for merges into the base.
const DISK: RangeInclusive<u64> = 16 << 20..=1 << 60;
const HOT_DISK: RangeInclusive<u64> = 0..=1 << 40;

// H8.
/// How compaction finds live records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compaction {
    /// Each record is looked up in the index.
    #[default]
    Lookup,
    /// Everything written since is read, as FASTER does. It takes more time and memory, and exists for comparison.
    Scan,
}

impl Compaction {
    const ALL: [Compaction; 2] = [Compaction::Lookup, Compaction::Scan];

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            Compaction::Lookup => "lookup",
            Compaction::Scan => "scan",
        }
    }
}

option_value!(Compaction, "compaction");

/// Options of the hash engine: a hybrid log under a latch-free index. They are fixed when a keyspace is created, and
/// [`check`](Self::check)ed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct HashOptions {
    /// The most bytes that the files of the keyspace may have together, 16 MiB to 2⁶⁰. Default none. The log of the
    /// database does not count. Near the limit, old versions are removed sooner, at the price of more writes, and
    /// writers are throttled. If live data reaches the limit, writes that add data fail with
    /// [`Error::DiskBudget`](ecotone_substrate::Error::DiskBudget) until enough is deleted. Choose 1.5 times the size
    /// of keys and values, and no less than 1.3 times plus 5 MiB.
    pub disk: Option<u64>,
    /// The bytes of the latest writes that stay on disk in write order, beyond memory, before they are sorted, 0 to
    /// 2⁴⁰. Default 0. More saves rewrites of records that change again and again. It costs memory for the index (a
    /// tenth of it) and time at opening.
    pub hot_disk: u64,
    /// How compaction finds live records. Default [`Compaction::Lookup`].
    pub compaction: Compaction,
    /// Whether copies of records read from disk are kept in memory. Default true. False leaves the memory to writes.
    pub read_cache: bool,
}

impl Default for HashOptions {
    fn default() -> Self {
        HashOptions { disk: None, hot_disk: 0, compaction: Compaction::default(), read_cache: true }
    }
}

/// Flag in the byte of the compaction: no read cache.
const WITHOUT_COPIES: u8 = 1 << 7;

impl HashOptions {
    /// Sets [`disk`](field@Self::disk).
    pub fn disk(self, bytes: u64) -> Self {
        HashOptions { disk: Some(bytes), ..self }
    }

    /// Sets [`hot_disk`](field@Self::hot_disk).
    pub fn hot_disk(self, bytes: u64) -> Self {
        HashOptions { hot_disk: bytes, ..self }
    }

    /// Sets [`compaction`](field@Self::compaction).
    pub fn compaction(self, compaction: Compaction) -> Self {
        HashOptions { compaction, ..self }
    }

    /// Sets [`read_cache`](field@Self::read_cache).
    pub fn read_cache(self, is_on: bool) -> Self {
        HashOptions { read_cache: is_on, ..self }
    }

    /// Sets an option by its name, for tools. The names are those of the fields; switches are `on` and `off`.
    ///
    /// # Errors
    /// If there is no such option, or the value is out of its range.
    pub fn set(self, name: &str, value: &str) -> Result<Self> {
        EngineOptions::set(self, name, value)
    }

    /// Checks that each option is in its range.
    ///
    /// # Errors
    /// If one is not; the error names it and the range.
    pub fn check(&self) -> Result<()> {
        EngineOptions::check(self)
    }

    /// Appends the options to a root.
    pub(super) fn encode(self, w: &mut Writer) {
        let copies = if self.read_cache { 0 } else { WITHOUT_COPIES };
        w.u64(self.disk.unwrap_or(0)).u64(self.hot_disk).u8(self.compaction as u8 | copies);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let (start, disk, hot_disk) = (r.position(), r.u64()?, r.u64()?);
        let disk = Some(disk).filter(|bytes| *bytes > 0);
        let how = r.u8()?;
        let compaction = by_number(&Compaction::ALL, how & !WITHOUT_COPIES, r, "there is no such kind of compaction")?;
        let options = HashOptions { disk, hot_disk, compaction, read_cache: how & WITHOUT_COPIES == 0 };
        let what = "an option of a hash keyspace is out of bounds";
        options.check().map(|()| options).map_err(|_| Malformed::new(start, what))
    }
}

impl EngineOptions for HashOptions {
    fn set(mut self, name: &str, value: &str) -> Result<Self> {
        match name {
            "disk" => self.disk = Some(number((name, value), "a number of bytes", &DISK)?),
            "hot_disk" => self.hot_disk = number((name, value), "a number of bytes", &HOT_DISK)?,
            "compaction" => self.compaction = value.parse()?,
            "read_cache" => self.read_cache = one_of(name, value, &SWITCH)?,
            _ => return Err(options::unknown("hash", name, &self.values())),
        }
        Ok(self)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("disk", self.disk.map_or(String::new(), |bytes| bytes.to_string())),
            ("hot_disk", self.hot_disk.to_string()),
            ("compaction", self.compaction.to_string()),
            ("read_cache", switch(self.read_cache)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_checked() {
        let set = |name: &str, value: &str| HashOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(HashOptions::parse(&[]).unwrap(), HashOptions::default());
        assert_eq!(set("disk", "16777216").unwrap().disk, Some(16 << 20));
        assert_eq!(set("hot_disk", "7").unwrap().hot_disk, 7);
        assert_eq!(set("compaction", "scan").unwrap().compaction, Compaction::Scan);
        assert!(!set("read_cache", "off").unwrap().read_cache && set("read_cache", "on").unwrap().read_cache);
        let bad = [
            ("compaction", "none"),
            ("read_cache", "no"),
            ("disk", "16777215"),
            ("disk", "0"),
            ("disk", "1G"),
            ("hot_disk", "-1"),
            ("speed", "9"),
        ];
        for (name, value) in bad {
            assert!(set(name, value).unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn a_root_keeps_them() {
        for (compaction, read_cache) in
            [(Compaction::Lookup, false), (Compaction::Scan, true), (Compaction::Scan, false)]
        {
            let options = HashOptions { disk: Some(16 << 20), hot_disk: 5, compaction, read_cache };
            let mut bytes = Writer::new();
            options.encode(&mut bytes);
            assert_eq!(HashOptions::decode(&mut Reader::new(&bytes.finish())).unwrap(), options);
        }
        for options in [HashOptions::default().disk(1), HashOptions::default().hot_disk(u64::MAX)] {
            let mut bytes = Writer::new();
            options.encode(&mut bytes);
            let malformed = HashOptions::decode(&mut Reader::new(&bytes.finish())).unwrap_err();
            assert_eq!(malformed, Malformed::new(0, "an option of a hash keyspace is out of bounds"));
        }
    }
}
