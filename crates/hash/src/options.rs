//! The options of a hash keyspace, and their encoding in its root.

use std::ops::RangeInclusive;

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
};

/// Range of the disk budget in bytes. Space is reserved in units of a MiB, and some is kept for merges into the base.
const DISK: RangeInclusive<u64> = 16 << 20..=1 << 60;
const HOT_DISK: RangeInclusive<u64> = 0..=1 << 40;

/// How compaction finds live records (H8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compaction {
    /// Each record is looked up in the index.
    #[default]
    Lookup,
    /// The whole read-only part of the hot log is read, and a table in memory keeps the live records.
    Scan,
}

impl Compaction {
    const ALL: [Compaction; 2] = [Compaction::Lookup, Compaction::Scan];

    /// Its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            Compaction::Lookup => "lookup",
            Compaction::Scan => "scan",
        }
    }
}

/// The options chosen when a hash keyspace is made; kept in its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashOptions {
    /// Maximum bytes of its files together, 16 MiB to 2⁶⁰ (H12). Default none.
    pub disk: Option<u64>,
    /// Bytes that the hot log keeps on disk before they are compacted, at most 2⁴⁰. Default 0: the hot log keeps none
    /// there deliberately.
    pub hot_disk: u64,
    /// How compaction finds live records. Default by lookup.
    pub compaction: Compaction,
    /// Whether records read from files are cached in memory (H6). Default yes.
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
    /// Appends the options to a root.
    pub(super) fn encode(self, w: &mut Writer) {
        let copies = if self.read_cache { 0 } else { WITHOUT_COPIES };
        w.u64(self.disk.unwrap_or(0)).u64(self.hot_disk).u8(self.compaction as u8 | copies);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let (start, disk, hot_disk) = (r.position(), r.u64()?, r.u64()?);
        let disk = Some(disk).filter(|bytes| *bytes > 0);
        if disk.is_some_and(|bytes| !DISK.contains(&bytes)) || !HOT_DISK.contains(&hot_disk) {
            return Err(Malformed::new(start, "an option of a hash keyspace is out of bounds"));
        }
        let how = r.u8()?;
        let Some(compaction) = Compaction::ALL.get(usize::from(how & !WITHOUT_COPIES)).copied() else {
            return r.fail("there is no such kind of compaction");
        };
        Ok(HashOptions { disk, hot_disk, compaction, read_cache: how & WITHOUT_COPIES == 0 })
    }

    /// The options named by `settings`; the others keep their defaults.
    ///
    /// # Errors
    /// If an option does not exist, or has an invalid value.
    pub fn parse(settings: &[(String, String)]) -> Result<Self> {
        let mut options = HashOptions::default();
        for (name, value) in settings {
            match name.as_str() {
                "disk" => options.disk = Some(bytes(name, value, DISK)?),
                "hot_disk" => options.hot_disk = bytes(name, value, HOT_DISK)?,
                "compaction" => {
                    options.compaction = one_of(name, value, Compaction::ALL.map(|kind| (kind.name(), kind)))?
                }
                "read_cache" => options.read_cache = one_of(name, value, [("on", true), ("off", false)])?,
                _ => {
                    let known = "disk, hot_disk, compaction and read_cache";
                    return Err(Error::Invalid(format!("the hash engine has no option {name:?}; it has {known}")));
                }
            }
        }
        Ok(options)
    }
}

fn bytes(name: &str, value: &str, range: RangeInclusive<u64>) -> Result<u64> {
    let parsed = value.parse().ok().filter(|bytes| range.contains(bytes));
    let (least, most) = (range.start(), range.end());
    parsed.ok_or_else(|| {
        Error::Invalid(format!("the option {name} is {value:?}, and must be a number of bytes from {least} to {most}"))
    })
}

fn one_of<T>(name: &str, value: &str, kinds: [(&'static str, T); 2]) -> Result<T> {
    let [(first, one), (second, other)] = kinds;
    match value {
        _ if value == first => Ok(one),
        _ if value == second => Ok(other),
        _ => Err(Error::Invalid(format!("the option {name} is {value:?}, and must be {first} or {second}"))),
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
    }
}
