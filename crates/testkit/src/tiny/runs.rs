//! The manifest of the append-only engine: sorted runs, each a table of its own.

use std::sync::Arc;

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_TABLES,
};

use super::run::Run;

/// The most runs that a root or a change can name, for decoders.
const MOST_RUNS: u64 = 1 << 20;

/// The runs, oldest first. Shared with readers, who take a copy.
pub(super) type Runs = Vec<Arc<Run>>;

/// A change of the manifest, by numbers: the runs that are removed, and the run that is added, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) out: Vec<u32>,
    pub(super) come: Option<u32>,
}

impl Change {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        push(&mut writer, &self.out);
        push(&mut writer, self.come.as_slice());
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (out, come) = (pull(&mut reader)?, pull(&mut reader)?);
        if come.len() > 1 {
            return reader.fail("a change brings more than one run");
        }
        reader.finish()?;
        Ok(Change { out, come: come.first().copied() })
    }
}

/// The manifest as roots and the log encode it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The runs, oldest first.
    pub(super) runs: Vec<u32>,
    /// The number of the next run; larger than every number used so far.
    pub(super) next: u32,
}

impl Numbers {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32(self.next);
        push(&mut writer, &self.runs);
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let numbers = Numbers { next: reader.u32()?, runs: pull(&mut reader)? };
        reader.finish()?;
        Ok(numbers)
    }

    /// Applies the change; false if a run to remove is not there.
    pub(super) fn install(&mut self, change: &Change) -> bool {
        let before = self.runs.len();
        self.runs.retain(|run| !change.out.contains(run));
        let fits = before - self.runs.len() == change.out.len();
        self.runs.extend(change.come);
        self.next = self.next.max(change.come.map_or(0, |run| run + 1));
        fits
    }
}

fn push(writer: &mut Writer, numbers: &[u32]) {
    writer.varint(numbers.len() as u64);
    numbers.iter().for_each(|number| _ = writer.u32(*number));
}

fn pull(reader: &mut Reader<'_>) -> Result<Vec<u32>, Malformed> {
    let count = reader.varint()?;
    if count > MOST_RUNS {
        return reader.fail("there are more runs than can be");
    }
    let number = |_| match reader.u32()? {
        number if number < MAX_TABLES => Ok(number),
        _ => reader.fail("a run has a number that is none"),
    };
    (0..count).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_roots_come_back_and_damage_is_found() {
        let change = Change { out: vec![3, 9], come: Some(12) };
        let (bytes, numbers) = (change.encode(), Numbers { runs: vec![3, 9, 11], next: 12 });
        assert_eq!(Change::decode(&bytes), Ok(change));
        assert_eq!(Numbers::decode(&numbers.encode()), Ok(numbers.clone()));
        for cut in 0..bytes.len() {
            assert!(Change::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let root = numbers.encode();
        for cut in 0..root.len() {
            assert!(Numbers::decode(&root[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn numbers_rise_and_only_runs_that_are_there_go() {
        let mut numbers = Numbers { runs: vec![3, 9, 11], next: 12 };
        assert!(numbers.install(&Change { out: vec![3, 9], come: Some(12) }));
        assert_eq!(numbers, Numbers { runs: vec![11, 12], next: 13 });
        assert!(numbers.install(&Change { out: vec![11, 12], come: None }));
        assert_eq!(numbers, Numbers { runs: vec![], next: 13 });
        assert!(!numbers.install(&Change { out: vec![12], come: Some(13) }));
    }
}
