//! The expected contents of the database: the state of every record after its last acknowledged write. A write that was
//! in flight when the process was killed may have happened or not, but never in part.

use crate::{
    demo::operations::{Action, Operations, THREADS},
    failure::Failure,
};

/// State of a missing record. Versions are smaller.
pub(crate) const ABSENT: u32 = u32::MAX;
/// At most this many findings are kept as sentences; the rest are only counted.
const TOLD: usize = 10;

/// Expected states by record index.
#[derive(Debug)]
pub(crate) struct ExpectedState {
    states: Vec<u32>,
    pending: Vec<Pending>,
    acknowledged: u64,
}

/// A write that was not acknowledged.
#[derive(Debug)]
struct Pending {
    indexes: Vec<usize>,
    state: u32,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// A lower bound of the acknowledged writes that are wrong.
    pub(crate) wrong: u64,
    /// The first of them, as sentences.
    pub(crate) told: Vec<String>,
}

impl Findings {
    /// Adds one finding.
    pub(crate) fn add(&mut self, what: String) {
        self.wrong += 1;
        if self.told.len() < TOLD {
            self.told.push(what);
        }
    }

    /// The number of acknowledged writes if nothing is wrong, else a failure that says what is.
    pub(crate) fn verdict(self, acknowledged: u64) -> Result<u64, Failure> {
        if self.wrong == 0 {
            return Ok(acknowledged);
        }
        let right = acknowledged.saturating_sub(self.wrong);
        let told = self.told.join("\n  ");
        Err(Failure::Told(format!("only {right} of {acknowledged} acknowledged writes are there:\n  {told}")))
    }
}

impl ExpectedState {
    /// The state after loading: every record has version 0, from an acknowledged write.
    pub(crate) fn loaded(records: usize) -> Self {
        ExpectedState { states: vec![0; records], pending: Vec::new(), acknowledged: records as u64 }
    }

    /// Acknowledged writes to the records so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Replays a round in memory: in thread `t` every operation with a number below `done[t]` was acknowledged. With
    /// `killed`, the next write of each thread may have been in flight.
    pub(crate) fn replay(&mut self, round: u32, done: &[u32; THREADS], killed: bool) {
        for (thread, &done) in done.iter().enumerate() {
            let mut operations = Operations::new(self.states.len(), round, thread);
            for operation in operations.by_ref().take(done as usize) {
                let state = state_after(&operation.action, operation.version);
                operation.action.writes().iter().for_each(|&index| self.states[index] = state);
                self.acknowledged += operation.action.writes().len() as u64;
            }
            let next = killed.then(|| operations.find(|operation| !operation.action.writes().is_empty())).flatten();
            self.pending.extend(next.map(|operation| Pending {
                state: state_after(&operation.action, operation.version),
                indexes: operation.action.writes().to_vec(),
            }));
        }
    }

    /// Compares the expected with the found states, and records which of the in-flight writes happened.
    pub(crate) fn compare(&mut self, found: &[u32], name: impl Fn(usize) -> String) -> Findings {
        let mut findings = Findings::default();
        for pending in std::mem::take(&mut self.pending) {
            self.settle(&pending, found, &mut findings, &name);
        }
        for (index, (&state, &found)) in self.states.iter().zip(found).enumerate() {
            if state != found {
                findings.add(format!(
                    "{} is {}, and the last acknowledged write left it {}",
                    name(index),
                    words(found),
                    words(state)
                ));
            }
        }
        findings
    }

    fn settle(&mut self, pending: &Pending, found: &[u32], findings: &mut Findings, name: impl Fn(usize) -> String) {
        let happened = |&&index: &&usize| found[index] == pending.state;
        let count = pending.indexes.iter().filter(happened).count();
        if count == pending.indexes.len() {
            pending.indexes.iter().for_each(|&index| self.states[index] = pending.state);
        } else if count > 0 {
            let names: Vec<String> = pending.indexes.iter().map(|&index| name(index)).collect();
            findings.add(format!("a batch was recovered by half: {count} of its writes, to {}", names.join(", ")));
        }
    }
}

fn state_after(action: &Action, version: u32) -> u32 {
    if matches!(action, Action::Delete(_)) { ABSENT } else { version }
}

fn words(state: u32) -> String {
    if state == ABSENT { "absent".to_owned() } else { format!("at version {}.{}", state >> 24, state & 0xFF_FFFF) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 4_000;

    /// The states of a database that lost nothing after these operations.
    fn state(done: &[u32; THREADS]) -> Vec<u32> {
        let mut ledger = ExpectedState::loaded(KEYS);
        ledger.replay(1, done, false);
        ledger.states
    }

    fn findings(done: &[u32; THREADS], found: &[u32]) -> Findings {
        let mut ledger = ExpectedState::loaded(KEYS);
        ledger.replay(1, done, true);
        ledger.compare(found, |index| format!("record {index}"))
    }

    #[test]
    fn nothing_lost_and_writes_under_way_may_have_happened() {
        let done = [50; THREADS];
        assert_eq!(findings(&done, &state(&done)).wrong, 0);
        let mut more = done;
        for (thread, more) in more.iter_mut().enumerate() {
            let next =
                Operations::new(KEYS, 1, thread).find(|next| next.number >= *more && !next.action.writes().is_empty());
            *more = next.map_or(*more, |next| next.number + 1);
        }
        assert_ne!(state(&more), state(&done));
        assert_eq!(findings(&done, &state(&more)).wrong, 0);
    }

    #[test]
    fn a_lost_write_is_found() {
        let (done, mut fewer) = ([200; THREADS], [200; THREADS]);
        fewer[3] = 100;
        let findings = findings(&done, &state(&fewer));
        assert!(findings.wrong > 10, "{findings:?}");
        assert_eq!(findings.told.len(), TOLD);
        assert!(findings.told[0].contains("last acknowledged write"), "{}", findings.told[0]);
    }

    #[test]
    fn a_deleted_record_that_returns_is_found() {
        let done = [200; THREADS];
        let mut found = state(&done);
        let deleted = found.iter().position(|&state| state == ABSENT).expect("something was deleted");
        found[deleted] = 0;
        assert_eq!(findings(&done, &found).wrong, 1);
    }

    #[test]
    fn half_a_batch_is_found() {
        let batch = |operation: &crate::demo::operations::Operation| operation.action.writes().len() > 1;
        let next = Operations::new(KEYS, 1, 0).find(batch).expect("there are batches");
        let mut done = [0; THREADS];
        done[0] = next.number;
        let mut found = state(&done);
        found[next.action.writes()[0]] = next.version;
        let findings = findings(&done, &found);
        assert!(findings.told[0].contains("by half"), "{findings:?}");
    }
}
