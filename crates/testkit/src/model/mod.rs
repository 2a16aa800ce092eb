//! The content that a database must have after it ended and was opened again.
//!
//! The model keeps the history of one thread's writes. The recovered content must be the state after some prefix of
//! that history. The prefix must reach at least to the last write whose acknowledgement outlives the kind of end. A
//! batch is one write.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

#[cfg(test)]
mod tests;

/// A key of a keyspace: the keyspace's number and the key's bytes.
pub type Key = (u32, Vec<u8>);

/// The content of all keyspaces.
pub type State = BTreeMap<Key, Vec<u8>>;

/// One operation of a write: a key and its new value, or `None` for a delete.
pub type Change = (Key, Option<Vec<u8>>);

/// The promise of the database in its answer to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No answer, or an error that leaves the write in doubt.
    InDoubt,
    /// The write is visible, and no more is promised.
    None,
    /// The write survives the death of the process.
    Buffered,
    /// The write survives loss of power.
    Sync,
}

/// How a session of the database ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was closed, and the closing succeeded.
    Closed,
    /// The process died; the kernel lived.
    ProcessDeath,
    /// The machine lost power.
    PowerLoss,
}

impl Ending {
    /// The weakest promise that outlives this end.
    pub(crate) fn outlived_by(self) -> Level {
        match self {
            Ending::Closed => Level::None,
            Ending::ProcessDeath => Level::Buffered,
            Ending::PowerLoss => Level::Sync,
        }
    }
}

#[derive(Debug, Clone)]
struct Step {
    changes: Vec<Change>,
    level: Level,
}

/// A history of writes and the states that it allows. All keyspaces in it share one log; an unlogged keyspace needs a
/// model of its own.
#[derive(Debug, Clone, Default)]
pub struct Model {
    base: State,
    steps: Vec<Step>,
    now: State,
}

impl Model {
    /// The model of an empty database.
    pub fn new() -> Self {
        Model::default()
    }

    /// Adds the next write, which may be a batch, with the promise of its answer. A write that was refused without
    /// effect is not added. Gives the number of the write, for [`acknowledge`](Self::acknowledge).
    pub fn record(&mut self, changes: Vec<Change>, level: Level) -> usize {
        apply(&mut self.now, &changes);
        self.steps.push(Step { changes, level });
        self.steps.len() - 1
    }

    /// Raises the promise for one write.
    ///
    /// # Panics
    /// If there is no such write since the last end.
    pub fn acknowledge(&mut self, number: usize, level: Level) {
        let step = &mut self.steps[number];
        step.level = step.level.max(level);
    }

    /// Raises the promise for every write so far, as a call that makes all of them durable does.
    pub fn acknowledge_all(&mut self, level: Level) {
        self.steps.iter_mut().for_each(|step| step.level = step.level.max(level));
    }

    /// Forgets all writes of a keyspace, because the keyspace was dropped; no later end undoes that.
    pub fn forget(&mut self, keyspace: u32) {
        self.base.retain(|key, _| key.0 != keyspace);
        self.now.retain(|key, _| key.0 != keyspace);
        self.steps.iter_mut().for_each(|step| step.changes.retain(|(key, _)| key.0 != keyspace));
    }

    /// The content after all writes.
    pub fn now(&self) -> &State {
        &self.now
    }

    /// The newest value of a key.
    pub fn get(&self, keyspace: u32, key: &[u8]) -> Option<&Vec<u8>> {
        self.now.get(&(keyspace, key.to_vec()))
    }

    /// Writes since the last end, in doubt or not.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was written since the last end.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Judges the recovered content. Gives the length of the shortest prefix of the history that explains it.
    ///
    /// # Errors
    /// A description of the nearest prefix and of the differences from it.
    pub fn check_recovered(
        &self,
        ending: Ending,
        recovered: impl IntoIterator<Item = (Key, Vec<u8>)>,
    ) -> Result<usize, String> {
        let recovered = collect(recovered)?;
        let guaranteed = self.guaranteed(ending);
        let mut walk = Walk::new(self.state_after(guaranteed), &recovered);
        let mut nearest = (walk.wrong.len(), guaranteed);
        for length in guaranteed..=self.steps.len() {
            if length > guaranteed {
                walk.step(&self.steps[length - 1].changes);
            }
            nearest = nearest.min((walk.wrong.len(), length));
            if walk.wrong.is_empty() {
                return Ok(length);
            }
        }
        Err(self.describe(ending, guaranteed, nearest.1, &recovered))
    }

    /// Judges the recovered content as [`check_recovered`](Self::check_recovered) does, and begins a new session with
    /// it. Recovery makes its content durable, so all of it is promised from now on.
    ///
    /// # Errors
    /// As `check_recovered`; the model is then unchanged.
    pub fn restart(
        &mut self,
        ending: Ending,
        recovered: impl IntoIterator<Item = (Key, Vec<u8>)>,
    ) -> Result<usize, String> {
        let length = self.check_recovered(ending, recovered)?;
        self.base = self.state_after(length);
        self.now = self.base.clone();
        self.steps.clear();
        Ok(length)
    }

    /// The number of writes up to and including the last one whose promise outlives `ending`.
    fn guaranteed(&self, ending: Ending) -> usize {
        self.steps.iter().rposition(|step| step.level >= ending.outlived_by()).map_or(0, |last| last + 1)
    }

    fn state_after(&self, length: usize) -> State {
        let mut state = self.base.clone();
        self.steps[..length].iter().for_each(|step| apply(&mut state, &step.changes));
        state
    }

    fn describe(&self, ending: Ending, guaranteed: usize, nearest: usize, recovered: &State) -> String {
        let state = self.state_after(nearest);
        let wrong = differences(&state, recovered);
        let mut text = format!(
            "after {ending:?}, no prefix of {guaranteed} to {} writes explains what was recovered; {nearest} \
             writes come nearest, \
             with {} keys wrong:",
            self.steps.len(),
            wrong.len()
        );
        for key in wrong.iter().take(5) {
            let (want, got) = (show(state.get(key)), show(recovered.get(key)));
            let writes = self.writes_of(key);
            let _ = write!(
                text,
                "\n  keyspace {} key {}: expected {want}, got {got}; {writes}",
                key.0,
                key.1.escape_ascii()
            );
        }
        text
    }

    /// The last few writes of a key, newest last.
    fn writes_of(&self, key: &Key) -> String {
        let writes = self.steps.iter().enumerate().filter_map(|(number, step)| {
            let (_, value) = step.changes.iter().rfind(|(changed, _)| changed == key)?;
            Some(format!("write {number} ({:?}) made it {}", step.level, show(value.as_ref())))
        });
        let writes: Vec<String> = writes.collect();
        if writes.is_empty() {
            "never written in this life".into()
        } else {
            writes[writes.len().saturating_sub(4)..].join(", ")
        }
    }
}

/// A state that is replayed through the history, with the keys in which it differs from the recovered content.
struct Walk<'a> {
    state: State,
    recovered: &'a State,
    wrong: BTreeSet<Key>,
}

impl<'a> Walk<'a> {
    fn new(state: State, recovered: &'a State) -> Self {
        let wrong = differences(&state, recovered);
        Walk { state, recovered, wrong }
    }

    fn step(&mut self, changes: &[Change]) {
        apply(&mut self.state, changes);
        for (key, _) in changes {
            if self.state.get(key) == self.recovered.get(key) {
                self.wrong.remove(key);
            } else {
                self.wrong.insert(key.clone());
            }
        }
    }
}

fn apply(state: &mut State, changes: &[Change]) {
    for (key, value) in changes {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
}

/// The keys whose values differ.
fn differences(a: &State, b: &State) -> BTreeSet<Key> {
    let either = a.keys().chain(b.keys());
    either.filter(|key| a.get(*key) != b.get(*key)).cloned().collect()
}

fn collect(recovered: impl IntoIterator<Item = (Key, Vec<u8>)>) -> Result<State, String> {
    let mut state = State::new();
    for (key, value) in recovered {
        if state.contains_key(&key) {
            return Err(format!("keyspace {} key {} was recovered twice", key.0, key.1.escape_ascii()));
        }
        state.insert(key, value);
    }
    Ok(state)
}

fn show(value: Option<&Vec<u8>>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) if value.len() <= 24 => format!("\"{}\"", value.escape_ascii()),
        Some(value) => format!("\"{}...\" of {} bytes", value[..24].escape_ascii(), value.len()),
    }
}
