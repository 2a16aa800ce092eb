//! Options of an LSM keyspace: their defaults, bounds, encoding and names.

use std::ops::RangeInclusive;

use ecotone_engine::options::{self, EngineOptions, number, one_of};
use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader, Writer},
};

use crate::{
    manifest::RunId,
    table::{Compression, IndexKind, IndexOptions},
};

/// The encoding of `index: None`, and its name in settings.
const AUTO: u8 = 0;
const AUTO_NAME: &str = "auto";
/// Allowed error of the lines of a PLR index, in bytes.
const ERROR: RangeInclusive<u32> = 400..=16_384;
/// Allowed sizes of a memtable and of a table, and bits of a filter, for each key.
const MEMTABLE: RangeInclusive<u64> = 1 << 20..=64 << 20;
const TABLE: RangeInclusive<u64> = 1 << 16..=64 << 20;
const FILTER_BITS: RangeInclusive<u8> = 0..=32;
/// Extra bits of filters above the last level: few keys are there, and each lookup that ends further down has asked
/// these filters first.
const UPPER_FILTER_BITS: u8 = 4;
/// The part of the budget of a memtable, by default.
const MEMTABLE_PART: u64 = 8;
/// Least size of a table by default; else it is half of a memtable.
const LEAST_TABLE: u64 = 8 << 20;
/// A budget has at most so many tables: a compaction takes at most ten budgets of tables, L0 and the level below, and
/// one log record names them all.
const TABLES: u64 = 4096;

/// Options of the lsm engine: tables of sorted records in levels, found by learned indexes. They are fixed when a
/// keyspace is created, and [`check`](Self::check)ed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct LsmOptions {
    /// How the blocks of a table are found. Default [`IndexKind::Linear`]. `None` chooses the cheapest kind for each
    /// table, by its size and read frequency. Keys that lines cannot tell apart get [`IndexKind::Single`] (SpongeKV).
    pub index: Option<IndexKind>,
    /// The error bound of [`IndexKind::Plr`] in bytes, 400 to 16384. Default 2000.
    pub error: u32,
    /// The size of a memtable in bytes, 1 to 64 MiB. Default an eighth of the memory budget, within these bounds. Less
    /// where memory is short.
    pub memtable: Option<u64>,
    /// The size of a table in bytes, 64 KiB to 64 MiB. Default half a memtable, and at least 8 MiB. A table has at
    /// least a 4096th of the memory budget, whatever is set.
    pub table: Option<u64>,
    /// The filter bits per key in a table of the last level, 0 (no filters) to 32. Default 10. Other levels have 4
    /// more.
    pub filter_bits: u8,
    /// The compression of blocks. Default [`Compression::None`]. [`Compression::Lz4`] is for cold data that repeats
    /// itself. Unpacking takes a few microseconds (computed, not measured) at each access to a block.
    pub compression: Compression,
}

impl Default for LsmOptions {
    fn default() -> Self {
        let (index, compression) = (Some(IndexKind::Linear), Compression::None);
        LsmOptions { index, error: 2000, memtable: None, table: None, filter_bits: 10, compression }
    }
}

impl LsmOptions {
    /// Sets [`index`](field@Self::index).
    pub fn index(self, kind: impl Into<Option<IndexKind>>) -> Self {
        LsmOptions { index: kind.into(), ..self }
    }

    /// Sets [`error`](field@Self::error).
    pub fn error(self, bytes: u32) -> Self {
        LsmOptions { error: bytes, ..self }
    }

    /// Sets [`memtable`](field@Self::memtable).
    pub fn memtable(self, bytes: u64) -> Self {
        LsmOptions { memtable: Some(bytes), ..self }
    }

    /// Sets [`table`](field@Self::table).
    pub fn table(self, bytes: u64) -> Self {
        LsmOptions { table: Some(bytes), ..self }
    }

    /// Sets [`filter_bits`](field@Self::filter_bits).
    pub fn filter_bits(self, bits: u8) -> Self {
        LsmOptions { filter_bits: bits, ..self }
    }

    /// Sets [`compression`](field@Self::compression).
    pub fn compression(self, compression: Compression) -> Self {
        LsmOptions { compression, ..self }
    }

    /// Sets an option by its name, for tools. The names are those of the fields; the index `None` is `auto`.
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

    /// Bytes of a full memtable for a memory budget.
    #[doc(hidden)]
    pub fn memtable_bytes(&self, budget: usize) -> u64 {
        self.memtable.unwrap_or((budget as u64 / MEMTABLE_PART).clamp(*MEMTABLE.start(), *MEMTABLE.end()))
    }

    /// Bytes of a full table for a memory budget.
    #[doc(hidden)]
    pub fn table_bytes(&self, budget: usize) -> u64 {
        self.table
            .unwrap_or((self.memtable_bytes(budget) / 2).max(LEAST_TABLE))
            .max((budget as u64 / TABLES).min(*TABLE.end()))
    }

    /// Bits for each key in a filter of a table in a run or level.
    pub(super) fn filter_bits_at(&self, run_id: RunId) -> u16 {
        let more = if run_id == RunId::LAST || self.filter_bits == 0 { 0 } else { UPPER_FILTER_BITS };
        (self.filter_bits + more).min(*FILTER_BITS.end()).into()
    }

    /// The index options of a table with this read frequency.
    #[doc(hidden)]
    pub fn wanted(&self, read_frequency: f64) -> IndexOptions {
        IndexOptions { kind: self.index, error: self.error, read_frequency }
    }

    /// Appends the options to a root.
    pub(super) fn encode(self, w: &mut Writer) {
        w.u8(self.index.map_or(AUTO, IndexKind::number)).u32(self.error);
        w.u64(self.memtable.unwrap_or(0)).u64(self.table.unwrap_or(0)).u8(self.filter_bits);
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
        let (error, memtable, table, filter_bits) = (r.u32()?, told(r.u64()?), told(r.u64()?), r.u8()?);
        let at = r.position();
        let compression = Compression::of(r.u8()?).ok_or_else(|| Malformed::new(at, "there is no such compression"))?;
        let options = LsmOptions { index, error, memtable, table, filter_bits, compression };
        match options.check() {
            Ok(()) => Ok(options),
            Err(_) => Err(Malformed::new(start, "an option of an lsm is out of bounds")),
        }
    }
}

impl EngineOptions for LsmOptions {
    fn set(mut self, name: &str, value: &str) -> Result<Self> {
        match name {
            "index" => self.index = index(value)?,
            "error" => self.error = number((name, value), "a number", &ERROR)?,
            "memtable" => self.memtable = Some(number((name, value), "a number", &MEMTABLE)?),
            "table" => self.table = Some(number((name, value), "a number", &TABLE)?),
            "filter_bits" => self.filter_bits = number((name, value), "a number", &FILTER_BITS)?,
            "compression" => self.compression = value.parse()?,
            _ => return Err(options::unknown("lsm", name, &self.values())),
        }
        Ok(self)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        let bytes = |bytes: Option<u64>| bytes.map_or(String::new(), |bytes| bytes.to_string());
        vec![
            ("index", self.index.map_or(AUTO_NAME, IndexKind::name).to_owned()),
            ("error", self.error.to_string()),
            ("memtable", bytes(self.memtable)),
            ("table", bytes(self.table)),
            ("filter_bits", self.filter_bits.to_string()),
            ("compression", self.compression.to_string()),
        ]
    }
}

fn index(value: &str) -> Result<Option<IndexKind>> {
    let kinds = IndexKind::ALL.map(|kind| (kind.name(), Some(kind)));
    one_of("index", value, &[&kinds[..], &[(AUTO_NAME, None)]].concat())
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
