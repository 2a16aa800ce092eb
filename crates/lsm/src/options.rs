//! Options of an LSM keyspace: their defaults, bounds, encoding and names.

use std::ops::RangeInclusive;

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
};

use crate::{
    manifest::RunId,
    table::{Compression, IndexKind, IndexOptions},
};

/// The encoding of `index: None`.
const AUTO: u8 = 0;
/// Allowed error of the lines of a PLR index, in bytes.
const ERROR: RangeInclusive<u32> = 400..=16_384;
/// Allowed sizes of a memtable and of a table, and bits of a filter, for each key.
const MEMTABLE: RangeInclusive<u64> = 1 << 20..=64 << 20;
const TABLE: RangeInclusive<u64> = 1 << 16..=64 << 20;
const FILTER_BITS: RangeInclusive<u16> = 0..=32;
/// Extra bits of filters above the last level: few keys are there, and each lookup that ends further down has asked
/// these filters first.
const UPPER_FILTER_BITS: u16 = 4;
/// The part of the budget of a memtable, by default.
const MEMTABLE_PART: u64 = 8;
/// Least size of a table by default; else it is half of a memtable.
const LEAST_TABLE: u64 = 8 << 20;
/// A budget has at most so many tables: a compaction takes at most ten budgets of tables, L0 and the level below, and
/// one log record names them all.
const TABLES: u64 = 4096;

/// The options of an LSM keyspace, fixed when it is created and kept in its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LsmOptions {
    /// The kind of a table's index (L2); `None` for the one that is cheapest for each table. Default linear.
    pub index: Option<IndexKind>,
    /// By how many bytes the lines of [`IndexKind::Plr`] may err, 400..=16384. Default 2000.
    pub error: u32,
    /// Bytes of a full memtable, 1 to 64 MiB. Default an eighth of the memory budget, within these.
    pub memtable: Option<u64>,
    /// Bytes of a full table, 64 KiB to 64 MiB, and at least a 4096th of the memory budget. Default half a memtable,
    /// and at least 8 MiB.
    pub table: Option<u64>,
    /// Bits for each key in a filter of the last level, 0..=32; above that level there are 4 more, unless it is 0.
    /// Default 10.
    pub filter_bits: u16,
    /// The compression of blocks: LZ4 saves space and reads of cold data, for a few microseconds (computed, not
    /// measured) at each access to a block. Default none.
    pub compression: Compression,
}

impl Default for LsmOptions {
    fn default() -> Self {
        let (index, compression) = (Some(IndexKind::Linear), Compression::None);
        LsmOptions { index, error: 2000, memtable: None, table: None, filter_bits: 10, compression }
    }
}

impl LsmOptions {
    /// Bytes of a full memtable for a memory budget.
    pub fn memtable_bytes(&self, budget: usize) -> u64 {
        self.memtable.unwrap_or((budget as u64 / MEMTABLE_PART).clamp(*MEMTABLE.start(), *MEMTABLE.end()))
    }

    /// Bytes of a full table for a memory budget.
    pub fn table_bytes(&self, budget: usize) -> u64 {
        self.table
            .unwrap_or((self.memtable_bytes(budget) / 2).max(LEAST_TABLE))
            .max((budget as u64 / TABLES).min(*TABLE.end()))
    }

    /// Bits for each key in a filter of a table in a run or level.
    pub(super) fn filter_bits_at(&self, run_id: RunId) -> u16 {
        let more = if run_id == RunId::LAST || self.filter_bits == 0 { 0 } else { UPPER_FILTER_BITS };
        (self.filter_bits + more).min(*FILTER_BITS.end())
    }

    /// The index options of a table with this read frequency.
    pub fn wanted(&self, read_frequency: f64) -> IndexOptions {
        IndexOptions { kind: self.index, error: self.error, read_frequency }
    }

    /// Appends the options to a root.
    pub(super) fn encode(self, w: &mut Writer) {
        w.u8(self.index.map_or(AUTO, IndexKind::number)).u32(self.error);
        w.u64(self.memtable.unwrap_or(0)).u64(self.table.unwrap_or(0)).u8(self.filter_bits as u8);
        w.u8(self.compression.number());
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, Malformed> {
        let start = r.position();
        let index = match r.u8()? {
            AUTO => None,
            number => {
                Some(IndexKind::of(number).ok_or_else(|| Malformed::new(start, "there is no such kind of index"))?)
            }
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

    /// Parses settings by name; options that they do not name keep their defaults.
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

fn kind(value: &str) -> Result<Option<IndexKind>> {
    let kind = IndexKind::ALL.into_iter().find(|kind| kind.name() == value);
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
        assert_eq!(set("index", "plr").unwrap().index, Some(IndexKind::Plr));
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
        let of = |filter_bits, run_id| LsmOptions { filter_bits, ..LsmOptions::default() }.filter_bits_at(run_id);
        let places = [RunId::L0(3), RunId::at_depth(2), RunId::LAST];
        assert_eq!([10, 0, 30].map(|bits| places.map(|run_id| of(bits, run_id))), [[14, 14, 10], [0; 3], [32, 32, 30]]);
    }

    #[test]
    fn options_in_a_root_are_within_their_bounds() {
        let reads = |options: LsmOptions| {
            let mut w = Writer::new();
            options.encode(&mut w);
            LsmOptions::decode(&mut Reader::new(w.as_slice())).is_ok_and(|read| read == options)
        };
        let options = LsmOptions {
            index: Some(IndexKind::Plr),
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
