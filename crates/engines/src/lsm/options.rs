//! Options of an lsm keyspace.

use std::ops::RangeInclusive;

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
};

use super::{
    structure::Place,
    table::{Compression, Kind, Wanted},
};

/// What stands for no kind of index.
const AUTO: u8 = 0;
/// Bytes by which lines may err.
const ERROR: RangeInclusive<u32> = 400..=16_384;
/// Bytes of a memtable, and of a table.
const MEMTABLE: RangeInclusive<u64> = 1 << 20..=64 << 20;
const TABLE: RangeInclusive<u64> = 1 << 16..=64 << 20;
const FILTER_BITS: RangeInclusive<u16> = 0..=32;
/// Bits that filters above the last level have besides: few keys are there, and each that is found further down was
/// asked for there first.
const UPPER_FILTER_BITS: u16 = 4;
/// A memtable has so much of the budget, unless it was told.
const MEMTABLE_PART: u64 = 8;
/// A table has half of a memtable, unless it was told, and no less than this.
const LEAST_TABLE: u64 = 8 << 20;
/// A budget has no more tables than that: a job takes ten budgets of tables at most, level 0 and the level below, and
/// one log record has to name them all.
const TABLES: u64 = 4096;

/// What can be chosen when an lsm keyspace is made; kept in its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LsmOptions {
    /// How the blocks of a table are found (L2); none for whatever costs a table least. Default linear.
    pub index: Option<Kind>,
    /// By how many bytes lines of [`Kind::Plr`] may err, 400..=16384. Default 2000.
    pub error: u32,
    /// Bytes of a full memtable, 1 to 64 MiB. Default an eighth of the memory budget, within these.
    pub memtable: Option<u64>,
    /// Bytes of a full table, 64 KiB to 64 MiB, and at least a 4096th of the memory budget. Default half a memtable,
    /// and at least 8 MiB.
    pub table: Option<u64>,
    /// Bits of each key in a filter of the last level, 0..=32; above it they have 4 more, but for 0. Default 10.
    pub filter_bits: u16,
    /// Whether blocks are packed: LZ4 saves space and reads of cold data, for a few microseconds (computed, not
    /// measured) at each access to a block. Default none.
    pub compression: Compression,
}

impl Default for LsmOptions {
    fn default() -> Self {
        let (index, compression) = (Some(Kind::Linear), Compression::None);
        LsmOptions { index, error: 2000, memtable: None, table: None, filter_bits: 10, compression }
    }
}

impl LsmOptions {
    /// Bytes of a full memtable within a budget of memory.
    pub fn memtable_bytes(&self, budget: usize) -> u64 {
        self.memtable.unwrap_or((budget as u64 / MEMTABLE_PART).clamp(*MEMTABLE.start(), *MEMTABLE.end()))
    }

    /// Bytes of a full table within a budget of memory.
    pub fn table_bytes(&self, budget: usize) -> u64 {
        self.table
            .unwrap_or((self.memtable_bytes(budget) / 2).max(LEAST_TABLE))
            .max((budget as u64 / TABLES).min(*TABLE.end()))
    }

    /// Bits of each key in a filter of a table at a place.
    pub(super) fn filter_bits_at(&self, place: Place) -> u16 {
        let more = if place == Place::Level(1) || self.filter_bits == 0 { 0 } else { UPPER_FILTER_BITS };
        (self.filter_bits + more).min(*FILTER_BITS.end())
    }

    /// What an index should be like of a table of which so much is read.
    pub fn wanted(&self, heat: f64) -> Wanted {
        Wanted { kind: self.index, error: self.error, heat }
    }

    /// Appends them to a root.
    pub(super) fn encode(self, w: &mut Writer) {
        w.u8(self.index.map_or(AUTO, Kind::number)).u32(self.error);
        w.u64(self.memtable.unwrap_or(0)).u64(self.table.unwrap_or(0)).u8(self.filter_bits as u8);
        w.u8(self.compression.number());
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let start = r.position();
        let index = match r.u8()? {
            AUTO => None,
            number => Some(Kind::of(number).ok_or_else(|| Malformed::new(start, "there is no such kind of index"))?),
        };
        let told = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0);
        let (error, memtable, table, filter_bits) = (r.u32()?, told(r.u64()?), told(r.u64()?), r.u8()?.into());
        let at = r.position();
        let compression = Compression::of(r.u8()?).ok_or_else(|| Malformed::new(at, "there is no such compression"))?;
        let options = LsmOptions { index, error, memtable, table, filter_bits, compression };
        if options.is_possible() {
            Ok(options)
        } else {
            Err(Malformed::new(start, "an option of an lsm is out of bounds"))
        }
    }

    fn is_possible(&self) -> bool {
        ERROR.contains(&self.error)
            && self.memtable.is_none_or(|bytes| MEMTABLE.contains(&bytes))
            && self.table.is_none_or(|bytes| TABLE.contains(&bytes))
            && FILTER_BITS.contains(&self.filter_bits)
    }

    /// The options that settings by name ask for; what they do not name keeps its default.
    ///
    /// # Errors
    /// If there is no such option, or it cannot have that value.
    pub fn parse(settings: &[(String, String)]) -> Result<Self> {
        let mut options = LsmOptions::default();
        for (name, value) in settings {
            match name.as_str() {
                "index" => options.index = kind(value)?,
                "error" => options.error = number(name, value, ERROR)?,
                "memtable" => options.memtable = Some(number(name, value, MEMTABLE)?),
                "table" => options.table = Some(number(name, value, TABLE)?),
                "filter_bits" => options.filter_bits = number(name, value, FILTER_BITS)?,
                "compression" => options.compression = Compression::parse(value)?,
                _ => {
                    let known = "index, error, memtable, table, filter_bits and compression";
                    return Err(Error::Invalid(format!("the lsm engine has no option {name:?}; it has {known}")));
                }
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    name: &str,
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T> {
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    parsed.ok_or_else(|| {
        Error::Invalid(format!("the option {name} is {value:?}, and must be a number from {least} to {most}"))
    })
}

fn kind(value: &str) -> Result<Option<Kind>> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value);
    if kind.is_some() || value == "auto" {
        return Ok(kind);
    }
    Err(Error::Invalid(format!("the option index is {value:?}, and must be single, partitioned, plr, linear or auto")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_checked() {
        let set = |name: &str, value: &str| LsmOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(set("index", "plr").unwrap().index, Some(Kind::Plr));
        assert_eq!(set("index", "auto").unwrap().index, None);
        assert_eq!(set("error", "400").unwrap().error, 400);
        assert_eq!(set("memtable", "1048576").unwrap().memtable, Some(1 << 20));
        assert_eq!(set("table", "65536").unwrap().table, Some(1 << 16));
        assert_eq!(set("filter_bits", "0").unwrap().filter_bits, 0);
        let bad = [
            ("index", "best"),
            ("error", "399"),
            ("memtable", "0"),
            ("memtable", "67108865"),
            ("table", "x"),
            ("filter_bits", "33"),
            ("speed", "9"),
        ];
        for (name, value) in bad {
            assert!(set(name, value).unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn what_is_not_told_goes_by_the_budget() {
        let options = LsmOptions::default();
        let sizes = |budget| (options.memtable_bytes(budget) >> 20, options.table_bytes(budget) >> 20);
        assert_eq!([4 << 20, 64 << 20, 220 << 20, 4 << 30].map(sizes), [(1, 8), (8, 8), (27, 13), (64, 32)]);
        let told = LsmOptions { memtable: Some(2 << 20), table: Some(1 << 20), ..options };
        assert_eq!((told.memtable_bytes(4 << 30), told.table_bytes(4 << 30)), (2 << 20, 1 << 20));
        assert_eq!([4 << 30, 64 << 30, 1 << 40].map(|budget| told.table_bytes(budget) >> 20), [1, 16, 64]);
    }

    #[test]
    fn filters_have_more_bits_above_the_last_level() {
        let of = |filter_bits, place| LsmOptions { filter_bits, ..LsmOptions::default() }.filter_bits_at(place);
        let places = [Place::Run(3), Place::Level(2), Place::Level(1)];
        assert_eq!([10, 0, 30].map(|bits| places.map(|place| of(bits, place))), [[14, 14, 10], [0; 3], [32, 32, 30]]);
    }

    #[test]
    fn options_in_a_root_are_within_their_bounds() {
        let reads = |options: LsmOptions| {
            let mut w = Writer::new();
            options.encode(&mut w);
            LsmOptions::decode(&mut Reader::new(w.as_slice())).is_ok_and(|read| read == options)
        };
        let options = LsmOptions {
            index: Some(Kind::Plr),
            memtable: Some(1 << 20),
            table: Some(1 << 20),
            ..LsmOptions::default()
        };
        assert!(reads(options) && reads(LsmOptions::default()) && reads(LsmOptions { index: None, ..options }));
        assert!(!reads(LsmOptions { error: 399, ..options }));
        assert!(!reads(LsmOptions { memtable: Some(1), ..options }));
        assert!(!reads(LsmOptions { table: Some(1 << 30), ..options }));
        assert!(!reads(LsmOptions { filter_bits: 33, ..options }));
    }
}
