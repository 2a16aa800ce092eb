//! An access trace: the sequence of accessed records.

use std::path::{Path, PathBuf};

use crate::{
    error::Result,
    measure::keys::{
        Format, Source,
        numbering::Numbering,
        words::{U64File, Writer},
    },
};

/// Name of the file of records.
const RECORDS: &str = "keys.trace";

/// The records of a trace in order. The number of an object's first appearance determines its record.
#[derive(Debug)]
pub(crate) struct Trace {
    records: U64File,
    objects: u64,
}

impl Trace {
    /// Reads a file of 64-bit numbers (`.u64`, `.u64.zst`) in windows and writes the records to a file in `directory`.
    pub(crate) fn open(file: &Path, directory: &Path) -> Result<Self> {
        let mut source = Source::open(file)?;
        if source.format == Format::Text {
            return Err(format!(
                "{} is no trace: traces are 64-bit numbers and end in .u64 or .u64.zst",
                file.display()
            )
            .into());
        }
        let mut numbering = Numbering::new(directory)?;
        let mut records = Writer::create(Self::path(directory))?;
        while let Some(words) = source.words()? {
            for word in words {
                records.push(numbering.number(*word)?.0)?;
            }
        }
        Ok(Trace { records: records.finish()?, objects: numbering.count() })
    }

    fn path(directory: &Path) -> PathBuf {
        directory.join(RECORDS)
    }

    /// The number of distinct objects.
    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// The number of accesses.
    pub(crate) fn accesses(&self) -> u64 {
        self.records.count()
    }

    /// Fills `records` with the accesses from `first` on; wraps around at the end.
    pub(crate) fn read(&self, first: u64, mut records: &mut [u64]) -> Result<()> {
        let mut position = first % self.accesses();
        while !records.is_empty() {
            let left = usize::try_from(self.accesses() - position)?;
            let (now, later) = records.split_at_mut(left.min(records.len()));
            self.records.read(position, now)?;
            (position, records) = (0, later);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_numbered_and_the_end_leads_to_the_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("accesses.u64");
        let objects = [900u64, 7, 900, u64::MAX, 7, 0];
        std::fs::write(&file, objects.iter().flat_map(|object| object.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        let trace = Trace::open(&file, directory.path()).unwrap();
        assert_eq!((trace.objects(), trace.accesses()), (4, 6));
        for (first, expected) in
            [(0, vec![0, 1, 0, 2, 1, 3]), (4, vec![1, 3, 0, 1]), (12, vec![0; 1]), (5, [3, 0, 1, 0, 2, 1].repeat(3))]
        {
            let mut records = vec![9; expected.len()];
            trace.read(first, &mut records).unwrap();
            assert_eq!(records, expected, "from {first}");
        }
    }
}
